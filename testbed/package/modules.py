"""The modules that the formats need, with their imports moved into one namespace."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

#: The packages of this project that the formats need some modules of.
PACKAGES = ("captures", "router", "topos")
_ROOT = Path(__file__).resolve().parents[2]


class PackagingError(ValueError):
    """A module cannot be moved into another namespace; the message has its file and line."""


def needed(doors: Iterable[str]) -> dict[str, Path]:
    """The modules that some modules need, directly and through others, and their packages.

    A string that is the name of a module counts as an import: modules name others for compilation.

    Returns:
        Name -> file, in the order of the names.
    """
    found: dict[str, Path] = {}
    waiting = list(doors)
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if path is None or name in found:
            continue
        found[name] = path
        waiting += [package for package in [name.rpartition(".")[0]] if package]
        for node, reference in _references(ast.parse(path.read_text(encoding="utf-8"))):
            waiting.append(reference)
            if isinstance(node, ast.ImportFrom):
                # What is imported may be a module of the package.
                waiting += [f"{reference}.{alias.name}" for alias in node.names]
    return dict(sorted(found.items()))


def moved(path: Path, namespace: str) -> str:
    """The text of a module with its references to modules of `PACKAGES` below a namespace.

    Raises:
        PackagingError: the module imports one of them by `import NAME`, which binds the name of the package,
            or a reference is not on one line.
    """
    text = path.read_text(encoding="utf-8")
    # The columns of the syntax tree count bytes. From the end, so that they stay those of the file.
    lines = text.encode().split(b"\n")
    found = sorted(_references(ast.parse(text)), key=lambda each: (each[0].lineno, each[0].col_offset))
    for node, name in reversed(found):
        if isinstance(node, ast.Import):
            raise PackagingError(f"{path}:{node.lineno}: import {name}; expected from ... import ...")
        line = lines[node.lineno - 1]
        before, after = line[: node.col_offset], line[node.col_offset :]
        if name.encode() not in after:
            raise PackagingError(f"{path}:{node.lineno}: {name}; expected the whole name on this line")
        lines[node.lineno - 1] = before + after.replace(name.encode(), f"{namespace}.{name}".encode(), 1)
    return b"\n".join(lines).decode()


def _references(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """The references to modules of `PACKAGES`, each with its statement or string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _is_ours(node.module):
            yield node, node.module
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "." in node.value
            and _is_ours(node.value)
            and _file(node.value) is not None
        ):
            yield node, node.value


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _file(name: str) -> Path | None:
    """The file of a module or package of this project; None: there is none."""
    if not _is_ours(name) or not all(part.isidentifier() for part in name.split(".")):
        return None
    path = _ROOT.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
