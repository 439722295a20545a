"""Which files paths, URIs, directories and globs stand for: the same by path and by URI, each file once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from pyarrow import fs

from captures.datasource.opening import run_folders
from captures.datasource.options import OptionError
from captures.pcap import listing
from captures.pcap.listing import is_capture_name, list_captures
from captures.pcap.opening import locate, open_bytes, split_uri

#: A folder, and what is below it -> how a user names it.
_NAMINGS = {
    "path": lambda folder, below: f"{folder}{below}",
    "URI as written": lambda folder, below: f"file://{folder}{below}",
    "URI": lambda folder, below: f"file:{quote(str(folder))}{quote(below, safe='/*?[]!-')}",
    "URI in full": lambda folder, below: f"file://{quote(str(folder))}{quote(below, safe='/*?[]!-')}",
}


def _make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def _content(path: str) -> str:
    target = bytearray(100)
    with open_bytes(path) as file:
        return target[: file.read_into(memoryview(target))].decode()


@pytest.fixture(params=["local", "pyarrow"])
def tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """URIs of this machine listed as paths of it are, and as those of other file systems."""
    if request.param == "pyarrow":
        monkeypatch.setattr(listing, "_Local", lambda: listing._Remote(fs.LocalFileSystem(), "here"))
    return str(request.param)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("naming", _NAMINGS)
def test_paths_and_uris_stand_for_the_same(tmp_path: Path, naming: str) -> None:
    folder = tmp_path / "a b"
    _make(
        folder, "a.pcap", "%41.pcap", "x [1].pcap", "q?#.pcap", "d.txt", ".h.pcap", "_t.pcap", ".snap/a.pcap",
        "sub/b.pcap", "sub/deep/c.pcap", "sub/.old/d.pcap", "sub/deep/_tmp/f.pcap", "_temporary/e.pcap",
    )  # fmt: skip

    def found(below: str, name_glob: str | None = None, recursive: bool = False) -> list[str]:
        entries = list_captures([_NAMINGS[naming](folder, below)], name_glob, recursive)
        # What is listed can be read under the name that it is given.
        contents = [_content(entry.path) for entry in entries]
        assert [entry.size for entry in entries] == list(map(len, contents))
        return sorted(contents)

    usual = ["%41.pcap", "a.pcap", "q?#.pcap", "x [1].pcap"]
    assert found("") == found("/") == usual
    assert found("", recursive=True) == [*usual[:3], "sub/b.pcap", "sub/deep/c.pcap", usual[3]]
    assert found("", "*.txt") == ["d.txt"]
    assert found("/a.pcap") == ["a.pcap"]
    # A name that is there is no glob.
    assert found("/x [1].pcap") == ["x [1].pcap"]
    assert found("/*.pcap") == ["%41.pcap", "_t.pcap", "a.pcap", "q?#.pcap", "x [1].pcap"]
    assert found("/%4*.pcap") == ["%41.pcap"]
    assert found("/[!%]*.pcap", "unused") == ["_t.pcap", "a.pcap", "q?#.pcap", "x [1].pcap"]
    assert found("/s?b") == ["sub/b.pcap"]
    assert found("/.*") == [".h.pcap", ".snap/a.pcap"]
    assert found("/*/*.pcap") == ["_temporary/e.pcap", "sub/b.pcap"]
    assert found("/*/deep/../b.pcap" if naming == "path" else "/*/b.pcap") == ["sub/b.pcap"]
    assert found("/**/[a-c].pcap") == ["a.pcap", "sub/b.pcap", "sub/deep/c.pcap"]
    assert found("/sub/**") == ["sub/b.pcap", "sub/deep/_tmp/f.pcap", "sub/deep/c.pcap"]
    for missing in ("/none", "/none*", "/*/none", "/a.pcap/*"):
        with pytest.raises(FileNotFoundError, match=r"no such file or directory|matches no file"):
            found(missing)


def test_an_escaped_wildcard_is_none(tmp_path: Path) -> None:
    _make(tmp_path, "a[1]/b*.pcap", "a[1]/bc.pcap", "a1/b*.pcap")
    uri = f"file://{tmp_path}"
    assert [_content(entry.path) for entry in list_captures([f"{uri}/[a]%5B1%5D/b%2A.pca?"])] == [
        "a[1]/b*.pcap"
    ]


def test_settings_of_a_file_system_are_no_wildcard() -> None:
    assert split_uri("s3://bucket/a?.pcap") == ("s3://bucket", "/a?.pcap", "")
    settings = "?endpoint_override=localhost:9000&scheme=http"
    assert split_uri(f"s3://bucket/a b/*.pcap{settings}") == ("s3://bucket", "/a b/*.pcap", settings)
    system, inside = locate("s3://bucket/a b/x[1]?.pcap?region=eu-west-1")
    assert (system.type_name, inside) == ("s3", "bucket/a b/x[1]?.pcap")


def test_a_file_is_found_once_whatever_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path, "d/a.pcap", "e/deep/b.pcap", "x.pcap")
    (tmp_path / "link").symlink_to("e/deep")
    (tmp_path / "d" / "latest.pcap").symlink_to("a.pcap")
    (tmp_path / "d" / "0.pcap").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)

    def found(*paths: str, recursive: bool = False) -> list[str]:
        return [entry.path.removeprefix(f"{tmp_path}/") for entry in list_captures(paths, None, recursive)]

    assert found("d/../d/a.pcap", "d/a.pcap", "./d", "d/*", f"file://{tmp_path}/d", "d/latest.pcap") == [
        "d/a.pcap"
    ]
    assert found("d/latest.pcap") == ["d/latest.pcap"]
    # Behind a link `..` leads elsewhere: to e, not to the folder of the link.
    _make(tmp_path, "e/x.pcap")
    assert found("link/../x.pcap", "x.pcap", "e/x.pcap") == ["e/x.pcap", "x.pcap"]
    assert [_content(entry.path) for entry in list_captures(["link/../x.pcap"])] == ["e/x.pcap"]
    # Links to directories are followed where they are named.
    assert found("link") == ["link/b.pcap"]
    assert found(".", recursive=True) == ["d/a.pcap", "e/deep/b.pcap", "e/x.pcap", "x.pcap"]
    assert found("link/../deep", "link") == ["link/b.pcap"]


def test_names_in_no_encoding_do_not_matter(tmp_path: Path) -> None:
    _make(tmp_path, "a.pcap")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xe9.txt")).touch()
    for folder in (str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/*.pcap"):
        assert [_content(entry.path) for entry in list_captures([folder])] == ["a.pcap"]


def test_links_that_lead_nowhere_and_a_nul_name_no_file(tmp_path: Path) -> None:
    _make(tmp_path, "a.pcap")
    loop = tmp_path / "loop.pcap"
    loop.symlink_to(loop)
    (tmp_path / "nowhere.pcap").symlink_to("gone")
    for named in (str(tmp_path), f"{tmp_path}/*.pcap", f"file://{tmp_path}"):
        assert [Path(entry.path).name for entry in list_captures([named])] == ["a.pcap"]
    for path in (str(loop), f"{tmp_path}/a\0b.pcap"):
        with pytest.raises(FileNotFoundError, match="no such file or directory"):
            list_captures([path])


def test_a_folder_that_may_not_be_searched_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    _make(folder, "a.pcap")
    for path in (tmp_path, *tmp_path.parents[:-2]):
        path.chmod(0o755)
    folder.chmod(0o744)
    program = "import sys; from captures.pcap.listing import list_captures; list_captures(sys.argv[1:])"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*nobody, sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert f"PermissionError: [Errno 13] Permission denied: '{folder}/a.pcap'" in done.stderr


def test_folders_are_found_at_any_depth(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("x/site/run?a=1", "y/run?a=1")]
    for run in runs:
        _make(run, "topology.json", "pcap/link-0-1.pcap")
    _make(tmp_path, "y/run-2", "y/notes.txt")
    wanted = [str(run) for run in runs]
    for pattern in ("/**/run*", "/**", "/**/*"):
        assert [str(run.path) for run in run_folders(f"{tmp_path}{pattern}")] == wanted
    for uri in (f"file://{quote(wanted[0])}", f"file://localhost{quote(wanted[0])}"):
        assert [str(run.path) for run in run_folders(uri)] == wanted[:1]
    assert run_folders(f"{tmp_path}/z") == []
    _make(tmp_path, "y/other.pcap")
    with pytest.raises(OptionError, match=r"also .*other\.pcap, which is no run folder"):
        run_folders(f"{tmp_path}/**/*")


def test_globs_have_alternatives(tmp_path: Path) -> None:
    assert is_capture_name("a.pcap.zst", None)
    _make(tmp_path, "a1.pcap", "b1.pcap", "c1.pcap", "x/b2.pcap", "y{1}.pcap", "{z.pcap")

    def names(pattern: str) -> list[str]:
        return [
            str(Path(entry.path).relative_to(tmp_path)) for entry in list_captures([f"{tmp_path}/{pattern}"])
        ]

    assert names("{a,b}*.pcap") == ["a1.pcap", "b1.pcap"]
    assert names("{a1,x/{b,c}2}.pcap") == ["a1.pcap", "x/b2.pcap"]
    assert names("y{1}.pcap") == ["y{1}.pcap"]
    assert names("[{]z.pcap") == ["{z.pcap"]
    with pytest.raises(FileNotFoundError, match="matches no file"):
        names("{d,e}.pcap")
