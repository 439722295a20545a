"""A working folder with modules of the names that the testbed imports."""

from __future__ import annotations

from pathlib import Path

#: The file to which a module of the folder writes its name when it is imported.
RAN = "ran"
_NAMES = ("testbed", "router", "captures", "topos", "json", "pyspark", "numpy")


def write_hostile_modules(folder: Path) -> None:
    """Makes a folder with modules that write their names to `RAN`, and end the process."""
    folder.mkdir(exist_ok=True)
    for name in _NAMES:
        script = f"open({str(folder / RAN)!r}, 'a').write({name!r}); raise SystemExit(97)\n"
        (folder / f"{name}.py").write_text(script)
