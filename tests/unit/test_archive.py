"""A run or a sweep in one file: what is kept, and archives that are refused."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import MANIFEST, Manifest
from router.privacy import KeyRing, write_keys
from router.security.signatures import make_signing_keys
from testbed.evaluation.sweeps.folder import SweepFolder
from testbed.evaluation.sweeps.job import row_of
from testbed.evaluation.sweeps.spec import load_spec
from testbed.results.archive import export_run, import_run
from testbed.results.folders import sweep_folder
from testbed.support.errors import InputError
from topos.generators import ring
from topos.loaders import to_json


def _run(runs: Path, name: str = "20260101-000000-x") -> RunLayout:
    layout = RunLayout(runs / name)
    layout.captures_folder.mkdir(parents=True)
    (layout.captures_folder / "link-0-1.pcap").write_bytes(bytes(range(256)) * 400)
    layout.tables_new.mkdir(parents=True)
    MANIFEST.write(layout, Manifest(datapath="user", started_ns=1, evidence=[], inputs={}))
    return layout


def _archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for member, content in members:
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    run = _run(tmp_path / "here")
    archive = tmp_path / "run.tar.gz"
    export_run(run.path, archive)
    copied, equal = import_run(archive, tmp_path / "there" / "runs")
    assert equal
    assert copied == tmp_path / "there" / "runs" / run.path.name
    files = [path.relative_to(run.path) for path in run.path.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(path.relative_to(copied) for path in copied.rglob("*") if path.is_file())
    assert all((copied / path).read_bytes() == (run.path / path).read_bytes() for path in files)
    assert not RunLayout(copied).tables_new.exists()
    with pytest.raises(InputError, match="exists; expected a new file"):
        export_run(run.path, archive)
    with pytest.raises(InputError, match="exists; expected no run of that name"):
        import_run(archive, tmp_path / "there" / "runs")
    assert [path.name for path in (tmp_path / "there" / "runs").iterdir()] == [run.path.name]


def test_a_sweep_travels_with_its_rows_and_files(tmp_path: Path, printed: Callable[..., str]) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "nets").mkdir(parents=True)
    (here / "nets" / "a.json").write_text(to_json(ring(4)))
    (here / "study.toml").write_text(
        'experiment = "own.toml"\n[set]\nduration_s = 20\n[grid]\ntopology = ["nets/a.json", "ring,5"]\n'
    )
    (here / "own.toml").write_text('duration_s = 9\n[topology]\nfile = "nets/a.json"\n[workload]\n')
    spec = load_spec(here / "study.toml")
    folder = SweepFolder(sweep_folder(tmp_path / "runs", spec.name))
    jobs = spec.jobs()
    for job in jobs:
        folder.keep(row_of(job, lambda _: ({"verdict": "holds"}, {})))
    folder.write_tables(jobs, folder.rows(jobs))
    write_keys(here / "keys.json", KeyRing.new())
    away = tmp_path / "away.toml"
    assert folder.keep_files([*spec.files(), here / "keys.json", away], spec.path.parent) == [away]
    assert not (folder.path / "spec" / "keys.json").exists()
    printed("export", "study", "--runs", tmp_path / "runs", "-o", tmp_path / "s.tar.gz")
    unpacked = printed("import", tmp_path / "s.tar.gz", "--runs", there)
    assert unpacked.splitlines()[-1] == str(there / "sweeps" / "study")
    shutil.rmtree(here)
    # The copy has the same runs, which have all ended.
    copied = load_spec(there / "sweeps" / "study" / "spec" / "study.toml")
    rows = SweepFolder(there / "sweeps" / "study").ended(copied.jobs(), "refuse")
    assert rows == folder.rows(jobs)
    assert len(rows) == 2


def _member(name: str, kind: bytes = tarfile.REGTYPE, sparse: Mapping[str, str] = {}) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    member.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    return member


#: A file of 4 TiB, of which the archive has nothing, in the three forms of sparse files.
_SPARSE = [
    {"numblocks": "0", "size": str(1 << 42), "map": f"{1 << 42},0"},
    {"name": "x/a", "size": str(1 << 42), "map": f"{1 << 42},0"},
    {"major": "1", "minor": "0", "name": "x/a", "realsize": str(1 << 42)},
]


@pytest.mark.attack("hostile archive")
@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([(tarfile.TarInfo("../outside"), b"")], "below the folder of the run"),
        ([(tarfile.TarInfo("/outside"), b"")], "below the folder of the run"),
        ([(_member("x/link", tarfile.SYMTYPE), b"")], "expected files and folders"),
        ([(_member("x/pipe", tarfile.FIFOTYPE), b"")], "expected files and folders"),
        ([(_member("x/a", sparse=_SPARSE[0]), b"")], "expected files and folders"),
        ([(_member("x/a", sparse=_SPARSE[1]), b"")], "expected files and folders"),
        ([(_member("x/a", sparse=_SPARSE[2]), b"1\n4398046511104\n0\n")], "expected files and folders"),
        (
            [(_member("x/a", sparse=_SPARSE[2]), b"60000\n" + b"1\n" * 60_000)],
            "that are no content of a file",
        ),
        ([(_member("x/" + "a/" * 1900), b"")], "at most 16 folders in each other"),
        ([(_member("x/" + "a" * 70_000), b"")], "that are no content of a file"),
        ([(_member("x/a\nb"), b"")], r"'x/a\\nb': expected a printable path"),
        ([(_member("x\x1b[31m/a"), b"")], r"'x\\x1b\[31m/a': expected a printable path"),
        ([(_member("-rf/a"), b"")], "'-rf': no id of a run"),
        ([(_member(".import-x/a"), b"")], "'.import-x': no id of a run"),
        ([(_member("sweeps/a"), b"")], "'sweeps': no id of a run"),
        ([(tarfile.TarInfo("x/a"), b""), (tarfile.TarInfo("y/a"), b"")], "2 folders; expected that of"),
        ([(tarfile.TarInfo("x/a"), b""), (tarfile.TarInfo("x/a"), b"")], "expected an archive"),
    ],
)
def test_an_archive_of_something_else_is_refused_and_leaves_nothing(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(InputError, match=why):
        import_run(_archive(tmp_path / "a.tar.gz", *members), runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "runs"]
    assert list(runs.iterdir()) == []


@pytest.mark.attack("large archive")
def test_folders_that_are_no_members_count_and_a_manifest_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [(tarfile.TarInfo(f"x/{number}/a/b"), b"") for number in range(3)]
    monkeypatch.setattr("testbed.results.archive._MEMBERS_MAX", 9)
    with pytest.raises(InputError, match="in 10 files"):
        import_run(_archive(tmp_path / "a.tar.gz", *members), tmp_path / "runs")
    large = _archive(tmp_path / "b.tar.gz", (tarfile.TarInfo("x/manifest.json"), bytes((1 << 24) + 1)))
    with pytest.raises(InputError, match="expected at most 16,777,216 bytes"):
        import_run(large, tmp_path / "runs")


@pytest.mark.attack("keys of an exported run")
def test_private_keys_stay_out_and_files_have_no_more_rights_than_before(tmp_path: Path) -> None:
    run = _run(tmp_path / "here")
    run.keys.touch()
    run.network_keys.touch()
    make_signing_keys(run.signing_keys, 2)
    # The user's own, and what a rotation that was killed has left.
    make_signing_keys(run.path / "own", 1)
    for name in ("own/keys", ".network-keys.json.4711"):
        write_keys(run.path / name, KeyRing.new())
    modes = {"a": 0o600, "b": 0o644, "c": 0o6777}
    for name, mode in modes.items():
        (run.path / name).touch()
        (run.path / name).chmod(mode)
    (run.path / "d").hardlink_to(run.path / "b")
    export_run(run.path, tmp_path / "a.tar.gz")
    copied, _ = import_run(tmp_path / "a.tar.gz", tmp_path / "runs")
    assert not (RunLayout(copied).keys.exists() or RunLayout(copied).network_keys.exists())
    assert [path.name for path in RunLayout(copied).signing_keys.iterdir()] == ["public.keys"]
    assert [path.name for path in (copied / "own").iterdir()] == ["public.keys"]
    assert not (copied / ".network-keys.json.4711").exists()
    assert {name: (copied / name).stat().st_mode & 0o7777 for name in (*modes, "d")} == {
        "a": 0o600,
        "b": 0o644,
        "c": 0o644,
        "d": 0o644,
    }


@pytest.mark.attack("large archive")
def test_an_archive_for_which_the_disk_has_no_room_is_not_unpacked(tmp_path: Path) -> None:
    """A header says 4 TiB and more; the archive ends behind it."""
    member = tarfile.TarInfo("x/a")
    member.size = 1 << 60
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(
        InputError, match="1,152,921,504,606,846,976 bytes or more in 2 files; expected at most"
    ):
        import_run(tmp_path / "a.tar.gz", tmp_path / "runs")


@pytest.mark.attack("large archive")
def test_what_is_behind_the_end_of_an_archive_is_bounded(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    export_run(_run(tmp_path / "here").path, archive)
    with archive.open("ab") as file:
        file.write(gzip.compress(bytes(1 << 20)))
    with pytest.raises(InputError, match="that are no content of a file"):
        import_run(archive, tmp_path / "runs")


def test_a_cut_archive_and_a_folder_without_a_manifest_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    export_run(_run(tmp_path / "here").path, archive)
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(InputError, match="expected an archive that cbcb export has written"):
        import_run(archive, tmp_path / "runs")
    with pytest.raises(RunFolderError, match="manifest"):
        import_run(_archive(tmp_path / "b.tar.gz", (tarfile.TarInfo("x/a"), b"")), tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    run = _run(tmp_path / "here")
    # No bytes repeat: a reference to another place would stand for other bytes.
    (run.path / "notes").write_bytes(b"".join(b"%d\n" % (7**number) for number in range(900)))
    (run.captures_folder / "link-0-1.pcap").unlink()
    archive = tmp_path / "a.tar.gz"
    export_run(run.path, archive)
    whole = archive.read_bytes()
    # Behind the header, which has the name of the file.
    for place in range(40, len(whole), len(whole) // 40):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with pytest.raises((InputError, RunFolderError)):
            import_run(archive, tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_is_imported_where_there_is_no_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(tmp_path / "here")
    export_run(run.path, tmp_path / "a.tar.gz")
    monkeypatch.setattr("testbed.results.archive._CHECKOUT", tmp_path)
    _, equal = import_run(tmp_path / "a.tar.gz", tmp_path / "runs")
    assert not equal


def test_every_command_takes_the_newest_run_and_names_it(tmp_path: Path, refused: Callable[..., str]) -> None:
    older, newer = _run(tmp_path, "1-a"), _run(tmp_path, "2-b")
    older.summary.write_text("{}")
    for command in (["query", "SELECT 1"], ["query", "--tables"], ["trace"], ["report"]):
        said = refused(*command, "--runs", tmp_path)
        assert said.startswith(f"cbcb: {newer.path}: the newest run\ncbcb: {newer.path}: ")
