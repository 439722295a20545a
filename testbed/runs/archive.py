"""A run in one file: a tar archive of the run folder and the lock file of the packages that made it."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from captures.rundir.layout import RunLayout
from captures.rundir.manifest import read_manifest
from testbed.errors import InputError

#: How the names of archives end.
SUFFIX = ".tar.gz"
_CHECKOUT = Path(__file__).resolve().parents[2]
_LOCK = "requirements.lock"
_CHUNK = 1 << 20


def export_run(run_dir: Path, archive: Path, show: Callable[[str], None] = lambda _: None) -> None:
    """Writes a run folder and the lock file of this checkout into an archive, whole or not at all.

    Args:
        show: is called with the name of each file.

    Raises:
        InputError: the archive exists, or cannot be written.
    """
    if archive.exists():
        raise InputError(f"{archive}: exists; expected a new file")
    layout = RunLayout(run_dir)
    unfinished = {layout.tables_new, layout.tables_former, layout.tables_removed}
    partial = archive.with_name(archive.name + ".new")

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = run_dir / PurePosixPath(member.name).relative_to(run_dir.name)
        if path in unfinished or not (member.isfile() or member.isdir()):
            return None
        show(member.name)
        return member

    try:
        with tarfile.open(partial, "w:gz", compresslevel=6) as file:
            file.add(run_dir, run_dir.name, filter=kept)
            if (_CHECKOUT / _LOCK).is_file():
                file.add(_CHECKOUT / _LOCK, _LOCK)
        partial.replace(archive)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{archive}: {error.strerror or error}") from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def import_run(archive: Path, runs: Path, show: Callable[[str], None] = lambda _: None) -> tuple[Path, bool]:
    """Unpacks a run into a folder of run folders, whole or not at all.

    Args:
        show: is called with the name of each file.

    Returns:
        The run folder, and whether the packages of this checkout are those that made the run.

    Raises:
        InputError: the file is no archive of a run, or the run folder exists.
    """
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as folder:
        unpacked = Path(folder)
        try:
            with gzip.open(archive) as content, tarfile.open(fileobj=content) as file:
                for member in file:
                    _unpack(file, member, unpacked, archive)
                    show(member.name)
                # The checksum is behind the end of the last member.
                while content.read(_CHUNK):
                    pass
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise InputError(
                f"{archive}: {error}; expected an archive that cbcb export has written"
            ) from error
        lock = unpacked / _LOCK
        own = _CHECKOUT / _LOCK
        # A package that was installed elsewhere has no lock file.
        equal = lock.is_file() and own.is_file() and lock.read_bytes() == own.read_bytes()
        found = [path for path in unpacked.iterdir() if path.is_dir()]
        if len(found) != 1:
            raise InputError(f"{archive}: {len(found)} folders; expected one, the run folder")
        read_manifest(RunLayout(found[0]))
        target = runs / found[0].name
        if target.exists():
            raise InputError(f"{target}: exists; expected no run of that name")
        found[0].rename(target)
    return target, equal


def _unpack(file: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, archive: Path) -> None:
    """Unpacks a file or a folder; anything else, and a path that leaves the folder, is an InputError."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise InputError(f"{archive}: {member.name}: expected files and folders below the folder of the run")
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = file.extractfile(member)
    assert source is not None  # it is a file
    with source, target.open("xb") as unpacked:
        shutil.copyfileobj(source, unpacked)
