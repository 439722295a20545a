"""The files that a user's paths name: files, directories and globs, on this machine or by URI."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape, has_magic
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from pyarrow import fs

from captures.pcap.opening import errors_of, is_uri, locate, split_uri

#: Names of captures in directories, also with numbers (tcpdump -C) and compressed.
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|dmp|ntar)\d*(\.gz|\.zst)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file: path or URI, and size in bytes.

    Attributes:
        changed_ns: time of the last change of file or name, ns since 1970 UTC; None: unknown.
        modified_ns: time of the last change of the content, which programs can set; None: unknown.
    """

    path: str
    size: int
    changed_ns: int | None = None
    modified_ns: int | None = None


def list_captures(
    paths: Sequence[str], name_glob: str | None = None, recursive: bool = False, may_be_missing: bool = False
) -> list[FileEntry]:
    """The files that paths, URIs, directories and globs name, each once, sorted.

    A path or glob may name any file. A file with several names (links, `..`) is listed under the shortest
    name that is no link.

    Args:
        name_glob: glob for the names of files in directories, hidden files excepted; None: names of captures.
        recursive: whether to search sub-directories, except hidden ones and links.
        may_be_missing: whether paths that do not exist, and globs that match nothing, name no file.

    Raises:
        FileNotFoundError: a path does not exist, or a glob matches nothing, unless `may_be_missing`.
        OSError: a directory cannot be listed. Globs skip directories that may not be read.
    """
    found: dict[str, tuple[tuple[bool, int, str], FileEntry]] = {}
    for path in paths:
        named = [(place, top) for place in _places(path) for top in _tops(place)]
        if not named and not may_be_missing:
            # The settings of a URI begin with a question mark.
            written = split_uri(path).path if is_uri(path) else path
            what = "matches no file" if has_magic(written) or "{" in written else "no such file or directory"
            raise FileNotFoundError(f"{path}: {what}")
        for place, top in named:
            for each in _files(place.tree, top, name_glob, recursive):
                name = place.name(each.path)
                # The least rank, so that the same call always gives the same names.
                rank = (each.linked, len(name), name)
                key = place.tree.identity(each)
                if key not in found or rank < found[key][0]:
                    found[key] = rank, FileEntry(name, each.size, each.changed_ns, each.modified_ns)
    return sorted((entry for _, entry in found.values()), key=lambda entry: entry.path)


def local_matches(path: str) -> list[tuple[str, bool]]:
    """The paths that a path, `file:` URI or glob names on this machine, sorted; whether each is a folder."""
    if is_uri(path) and not path.startswith("file:"):
        return []
    places = _places(path.replace("file://localhost/", "file:///", 1))
    return sorted({(top.path or "/", top.directory) for place in places for top in _tops(place)})


def is_capture_name(name: str, name_glob: str | None) -> bool:
    """Whether a file in a directory is read: its name is that of a capture, or matches `name_glob`."""
    if is_hidden(name):
        return False
    return fnmatchcase(name, name_glob) if name_glob else _CAPTURE_NAME.search(name) is not None


def is_hidden(name: str) -> bool:
    """Whether a file or directory is skipped in the directory that contains it."""
    return name.startswith((".", "_"))


class _Found(NamedTuple):
    """A file or directory. `path` has no slash at its end (`/` is empty); `linked`: it is a symbolic link."""

    path: str
    name: str
    directory: bool
    size: int
    changed_ns: int | None
    modified_ns: int | None
    linked: bool = False


class _Local:
    """The file system of this machine."""

    def look(self, path: str) -> _Found | None:
        """The file or directory at a path; None: there is none."""
        where = Path(path or "/")
        try:
            return _local(path, where.name, where.stat(), where.is_symlink())
        except OSError as error:
            # A link may lead to itself.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return None
        except ValueError:  # a NUL
            return None

    def inside(self, path: str) -> list[_Found]:
        """The files and directories in a directory.

        Raises OSError.
        """
        found = []
        with os.scandir(path or "/") as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue
                except OSError:
                    # A link may form a loop, or lead where this process has no access.
                    if entry.is_symlink():
                        continue
                    raise
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    found.append(_local(f"{path}/{entry.name}", entry.name, status, entry.is_symlink()))
        return found

    def identity(self, found: _Found) -> str:
        """A text that is the same for all names of a file."""
        return os.path.realpath(found.path)


def _local(path: str, name: str, status: os.stat_result, linked: bool) -> _Found:
    # The time of the last change of the inode: programs can set the time of the content to any value.
    directory = stat.S_ISDIR(status.st_mode)
    return _Found(path, name, directory, status.st_size, status.st_ctime_ns, status.st_mtime_ns, linked)


class _Remote:
    """A file system of pyarrow.

    Args:
        name: distinguishes it from others.
    """

    def __init__(self, system: fs.FileSystem, name: str) -> None:
        self._system = system
        self._name = name

    def look(self, path: str) -> _Found | None:
        with errors_of(self._name):
            info = self._system.get_file_info(path or "/")
        return None if info.type == fs.FileType.NotFound else _remote(info)

    def inside(self, path: str) -> list[_Found]:
        with errors_of(self._name):
            infos = self._system.get_file_info(fs.FileSelector(path or "/"))
        return [_remote(info) for info in infos if info.type in (fs.FileType.File, fs.FileType.Directory)]

    def identity(self, found: _Found) -> str:
        return f"{self._name}:{found.path}"


def _remote(info: fs.FileInfo) -> _Found:
    path, directory = info.path.rstrip("/"), info.type == fs.FileType.Directory
    return _Found(path, info.base_name, directory, info.size or 0, info.mtime_ns, info.mtime_ns)


_Tree: TypeAlias = _Local | _Remote


@dataclass(frozen=True, slots=True)
class _Place:
    """A path, URI or glob of a user.

    Attributes:
        base: the part before the first component with a wildcard; a path in `tree`.
        patterns: the further components.
        name: function from a path in `tree` below `base` to the path or URI for the user.
    """

    tree: _Tree
    base: str
    patterns: tuple[str, ...]
    name: Callable[[str], str]


def _places(given: str) -> list[_Place]:
    """The places that a user's text names: several where it has alternatives, such as `{a,b}`."""
    place = _place(given)
    # Names may contain braces.
    if "{" not in given or _tops(place):
        return [place]
    return [_place(each) for each in _alternatives(given)]


def _alternatives(given: str) -> list[str]:
    """The texts without braces; braces in `[...]`, and braces that are not closed, stand for themselves."""
    # The text with other characters in place of sets of characters.
    opened = re.sub(r"\[[^\]/]*\]", lambda found: "x" * len(found[0]), given).find("{")
    if opened < 0:
        return [given]
    depth, parts, start = 0, list[str](), opened + 1
    for at in range(opened, len(given)):
        character = given[at]
        depth += (character == "{") - (character == "}")
        if depth == 0 or (depth == 1 and character == ","):
            parts.append(given[start:at])
            start = at + 1
        if depth == 0:
            tails = _alternatives(given[at + 1 :])
            heads = [given[:opened] + each for part in parts for each in _alternatives(part)]
            return [head + tail for head in heads for tail in tails]
    return [given]


def _place(given: str) -> _Place:
    return _place_of_uri(given) if is_uri(given) else _local_place(given)


def _local_place(given: str) -> _Place:
    tree, path = _Local(), Path(given)
    base = str(path.absolute()).rstrip("/")
    patterns: tuple[str, ...] = ()
    # Names may contain the characters of wildcards.
    if has_magic(given) and tree.look(base) is None:
        # Not in the name of the working directory.
        base = "" if path.is_absolute() else str(Path.cwd()).rstrip("/")
        patterns = path.parts[path.is_absolute() :]
    return _Place(tree, base, patterns, str)


def _place_of_uri(given: str) -> _Place:
    head, path, query = split_uri(given)
    system, base = locate(given)
    tree: _Tree = _Local() if isinstance(system, fs.LocalFileSystem) else _Remote(system, head)
    base, written = base.rstrip("/"), head + path.rstrip("/")
    patterns: tuple[str, ...] = ()
    if has_magic(path) and tree.look(base) is None:
        parts = [part for part in path.split("/") if part]
        plain = next(index for index, part in enumerate(parts) if has_magic(part))
        written = head + "".join(f"/{part}" for part in parts[:plain])
        base = locate(f"{written}/{query}")[1].rstrip("/")
        patterns = tuple(map(_decoded, parts[plain:]))
    return _Place(tree, base, patterns, lambda path: f"{written}{quote(path[len(base) :])}{query}")


def _decoded(pattern: str) -> str:
    """A pattern of a URI without its escapes. Escaped characters are no wildcards."""
    return re.sub(r"(?:%[0-9A-Fa-f]{2})+", lambda escapes: escape(unquote(escapes[0])), pattern)


def _tops(place: _Place) -> list[_Found]:
    """The files and directories that a place names, without the contents of directories."""
    if place.patterns:
        return list(_matches(place.tree, place.base, place.patterns))
    top = place.tree.look(place.base)
    return [] if top is None else [top]


def _files(tree: _Tree, top: _Found, name_glob: str | None, recursive: bool) -> Iterator[_Found]:
    """A file itself; the captures in a directory."""
    if not top.directory:
        yield top
        return
    for each in tree.inside(top.path):
        if not each.directory:
            if is_capture_name(each.name, name_glob):
                yield each
        elif recursive and not is_hidden(each.name) and not each.linked:
            # It may have been removed.
            with suppress(FileNotFoundError):
                yield from _files(tree, each, name_glob, recursive)


def _matches(tree: _Tree, folder: str, patterns: Sequence[str]) -> Iterator[_Found]:
    """The matches below a directory, as of the module `glob`; but `**` follows no links to directories."""
    first, rest = patterns[0], patterns[1:]
    try:
        plain = None if has_magic(first) else tree.look(f"{folder}/{first}")
        inside = tree.inside(folder) if has_magic(first) else []
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    if plain is not None:
        if rest:
            yield from _matches(tree, plain.path, rest)
        else:
            yield plain
    if first == "**":
        yield from _matches(tree, folder, rest or ("*",))
        for each in inside:
            if each.directory and not each.linked and not each.name.startswith("."):
                yield from _matches(tree, each.path, patterns)
        return
    for each in inside:
        if fnmatchcase(each.name, first) and (first.startswith(".") or not each.name.startswith(".")):
            if not rest:
                yield each
            elif each.directory:
                yield from _matches(tree, each.path, rest)
