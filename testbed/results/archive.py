"""A run or a sweep in one file: a tar archive of its folder, and the lock file of the packages that made it.

An archive may be a stranger's. `tarfile.data_filter` is missing in Python 3.11.0 to 3.11.3, and permits links
and any size: this module checks members itself.
"""

from __future__ import annotations

import filecmp
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from router.privacy import holds_keys
from testbed.results.folders import SWEEP_TABLE, check_run_id, sweep_folder
from testbed.support.errors import InputError

#: How the names of archives end.
SUFFIX = ".tar.gz"
_CHECKOUT = Path(__file__).resolve().parents[2]
_LOCK = "requirements.lock"
#: Folders in each other; a run folder has up to 5.
_DEPTH_MAX = 16
#: Bytes of all headers of one member, and of what may be behind the last one.
_HEADERS_MAX = 1 << 16
#: Bytes that a member takes on the disk beside its content.
_BLOCK = 4096
#: Files and folders of a run; one of 3,200 routers has some 30,000.
_MEMBERS_MAX = 1_000_000
#: Bytes of a manifest, which is read before the run is there; one of 3,200 routers has some 1,000,000.
_MANIFEST_MAX = 1 << 24


def export_run(run_dir: Path, archive: Path, show: Callable[[str], None] = lambda _: None) -> None:
    """Writes the folder of a run or a sweep, and the lock file of this checkout, whole or not at all.

    Private keys stay out, whatever the names of their files: `cbcb replay` and `cbcb account` need none.

    Args:
        show: is called with the name of each file.

    Raises:
        InputError: the archive exists, or cannot be written, or `import_run` would refuse it.
    """
    if archive.exists():
        raise InputError(f"{archive}: exists; expected a new file")
    partial = archive.with_name(archive.name + ".new")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=6, dereference=True) as file:
            for path in _kept(RunLayout(run_dir)):
                name = path.relative_to(run_dir.parent).as_posix()
                _check_name(archive, name)
                file.add(path, name, recursive=False)
                show(name)
            if (_CHECKOUT / _LOCK).is_file():
                file.add(_CHECKOUT / _LOCK, _LOCK)
        partial.replace(archive)
    except OSError as error:
        raise InputError(f"{archive}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _kept(run: RunLayout) -> Iterator[Path]:
    """The folders and files of a run folder that an archive has, a folder before what is in it."""
    left_out = {run.tables_new, run.tables_former, run.tables_removed, run.keys, run.network_keys}
    waiting = [run.path]
    while waiting:
        path = waiting.pop()
        if path in left_out or path.is_symlink():
            continue
        if path.is_dir():
            waiting += sorted(path.iterdir(), reverse=True)
        if path.is_dir() or (path.is_file() and not holds_keys(path)):
            yield path


def import_run(archive: Path, runs: Path, show: Callable[[str], None] = lambda _: None) -> tuple[Path, bool]:
    """Unpacks a run, or a sweep, into a folder of run folders, whole or not at all.

    Each member is checked before it is unpacked, with all before it. Others than the owner of a file may at
    most read it, if its mode in the archive and the umask permit so.

    Args:
        show: is called with the name of each file.

    Returns:
        The folder of the run or the sweep, and whether this checkout has the packages that made it.

    Raises:
        InputError: the file is no archive of a run, the disk has no room for it, or the run folder exists.
    """
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as folder:
        unpacked = Path(folder)
        try:
            with _Content(archive) as content:
                run_id = ""
                # Others write to the disk meanwhile.
                room = 9 * shutil.disk_usage(runs).free // 10
                for file, member in _members(content, archive, room):
                    top = PurePosixPath(member.name).parts[0]
                    if top not in (_LOCK, run_id):
                        if run_id:
                            raise InputError(f"{archive}: 2 folders; expected that of a run or a sweep")
                        run_id = top
                        for target in (runs / run_id, sweep_folder(runs, run_id)):
                            if target.exists():
                                raise InputError(f"{target}: exists; expected no run of that name")
                    content.budget = member.size
                    _unpack(file, member, unpacked)
                    show(member.name)
                    content.budget = _HEADERS_MAX
                # The checksum is behind the end of the last member.
                while content.read(_BLOCK):
                    pass
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
            raise InputError(
                f"{archive}: {error}; expected an archive that cbcb export has written"
            ) from error
        if not run_id:
            raise InputError(f"{archive}: no folder; expected that of a run or a sweep")
        is_sweep = (unpacked / run_id / SWEEP_TABLE).is_file()
        target = sweep_folder(runs, run_id) if is_sweep else runs / run_id
        lock = unpacked / _LOCK
        own = _CHECKOUT / _LOCK
        # A package that was installed elsewhere has no lock file.
        equal = lock.is_file() and own.is_file() and filecmp.cmp(lock, own, shallow=False)
        if not is_sweep:
            MANIFEST.read(RunLayout(unpacked / run_id))
        target.parent.mkdir(exist_ok=True)
        (unpacked / run_id).rename(target)
    return target, equal


class _Content(gzip.GzipFile):
    """The content of an archive.

    Attributes:
        budget: bytes that may still be read. Headers say how long they are, and that others follow.
    """

    budget = _HEADERS_MAX

    def read(self, size: int | None = -1) -> bytes:
        self.budget -= size if size is not None and size >= 0 else self.budget + 1
        if self.budget < 0:
            raise tarfile.ReadError(f"more than {_HEADERS_MAX} bytes that are no content of a file")
        return super().read(size)


def _members(
    content: _Content, archive: Path, free: int
) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of an archive, each checked; none is kept. `free`: bytes on the disk."""
    count = size = 0
    before = PurePosixPath()
    with tarfile.open(fileobj=content, mode="r:") as file:
        while (member := file.next()) is not None:
            if file.pax_headers:
                raise tarfile.ReadError("headers for all members")
            file.members.clear()  # type: ignore[attr-defined]  # public, but not in its stub
            _check_name(archive, member.name)
            path = PurePosixPath(member.name)
            if member.issparse() or member.size < 0 or not (member.isfile() or member.isdir()):
                raise InputError(f"{archive}: {member.name}: expected files and folders")
            if path.name == RunLayout(Path()).manifest.name and member.size > _MANIFEST_MAX:
                raise InputError(f"{archive}: {member.name}: expected at most {_MANIFEST_MAX:,} bytes")
            # With folders that have no member of their own: those that the last member is not in.
            count += len({path, *path.parents} - {before, *before.parents}) or 1
            size, before = size + member.size, path
            if size + _BLOCK * count > free or count > _MEMBERS_MAX:
                raise InputError(
                    f"{archive}: {size:,} bytes or more in {count:,} files; expected at most the {free:,} "
                    f"bytes that are free, in {_MEMBERS_MAX:,} files"
                )
            yield file, member


def _check_name(archive: Path, name: str) -> None:
    """Raises InputError: the path leaves the folder, goes deep, or has characters that a terminal obeys."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or not name.isprintable():
        raise InputError(f"{archive}: {name!r}: expected a printable path below the folder of the run")
    if len(path.parts) > _DEPTH_MAX:
        raise InputError(f"{archive}: {name:.80}: expected at most {_DEPTH_MAX} folders in each other")
    check_run_id(path.parts[0])


def _unpack(file: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = folder / member.name
    if member.isdir():
        target.mkdir(0o700 | member.mode & 0o055, parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = file.extractfile(member)
    assert source is not None  # it is a file
    mode = 0o600 | member.mode & 0o044
    with source, open(target, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as unpacked:
        shutil.copyfileobj(source, unpacked)
