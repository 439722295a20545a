"""The JSON Schemas accept and refuse what the loaders accept and refuse, as taplo reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from router.options import Option, options_of
from router.registry import Registry
from testbed.cli.documents.__main__ import DOCUMENTS
from testbed.cli.documents.experiment_file import CHOICES, entries_of, keys_of
from testbed.evaluation.sweeps.spec import OPTIONS, Plot, load_spec
from testbed.experiments.config import SECTIONS
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import toml_value
from testbed.experiments.config.topology import FILE_OPTIONS
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from tests.support.paths import ROOT
from topos.loaders import LINK_OPTIONS, NODE_OPTIONS

_SCHEMAS = {each.path.stem: each.path for each in DOCUMENTS if each.path.suffix == ".json"}
_FOLDERS = ("testbed/experiments/shipped", "examples", "tests/conformance")
_FILES = [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.toml"))]
_TAPLO = shutil.which("taplo", path=Path(sys.executable).parent) or ""
_TOPOLOGY = 'topology = { generator = "ring", nodes = 3 }\n'
_VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 101, 2**62, -0.5, 0.5, 2e9 + 0.5, True),
    *("", "x", "auto", "/", [], [0, 1], [0, 1, 2], [[0], 1]),
)
#: Files that schema and loader refuse, and files with a name that a package may register.
_EXPERIMENTS, _SWEEPS, _OF_PACKAGES = cases_beside(__file__).values()

pytestmark = pytest.mark.skipif(not _TAPLO, reason="taplo is not installed")


def _refused(folder: Path, schema: str, documents: Iterable[str]) -> set[str]:
    """Returns the documents that a schema refuses."""
    paths = {str(folder / f"{number}.toml"): text for number, text in enumerate(documents)}
    for path, text in paths.items():
        Path(path).write_text(f"#:schema {_SCHEMAS[schema]}\n{text}\n", encoding="utf-8")
    done = subprocess.run(
        [_TAPLO, "lint", "--no-auto-config", *paths], capture_output=True, text=True, check=False
    )
    assert f"total={len(paths)} " in done.stderr
    assert "invalid syntax" not in done.stderr
    # The log of the last file is lost now and then.
    return {paths[path] for path in re.findall(r"┌─ (.+):\d+:\d+\n", done.stderr)}


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_shipped_file_is_valid_under_the_schema_that_it_names(path: Path) -> None:
    directive, schema = path.read_text().split("\n", 1)[0].split()
    assert directive == "#:schema"
    assert (path.parent / schema).resolve() in _SCHEMAS.values()
    subprocess.run([_TAPLO, "lint", "--no-auto-config", path], check=True, capture_output=True)


def _tables() -> Iterator[tuple[str, str, tuple[Option, ...], dict[str, str]]]:
    """Yields schema, text before the keys of a table, its options, and an entry that it names."""
    yield "experiment", _TOPOLOGY, keys_of(""), {}
    for name in SECTIONS:
        start = f"duration_s = 1\n{'' if name == 'topology' else _TOPOLOGY}"
        header = "[[events]]" if name == "events" else f"[{name}]"
        if name not in CHOICES:
            yield "experiment", f"{start}{header}\n", keys_of(name), {}
            continue
        for entry, options in entries_of(name).items():
            chosen = {keys_of(name)[0].key: toml_value(entry)}
            yield "experiment", f"{start}{header}\n", (*keys_of(name), *options), chosen
    yield "experiment", "duration_s = 1\n[topology]\n", FILE_OPTIONS, {}
    yield "topology", "[[node]]\n", NODE_OPTIONS, {"id": "0"}
    yield "topology", "[[link]]\n", LINK_OPTIONS, {}
    yield "sweep", "", OPTIONS, {}
    yield "sweep", "[[plot]]\n", options_of(Plot), {"x": "'a'", "y": "'b'"}


def _accepts(option: Option, value: Any) -> bool:
    try:
        option.convert(value)
    except ValueError:
        return isinstance(option.choices, Registry) and option.choices.open and value and type(value) is str
    return True


def test_a_schema_and_the_declarations_accept_and_refuse_the_same_values(tmp_path: Path) -> None:
    refused: dict[str, dict[str, bool]] = {}
    for schema, start, options, chosen in _tables():
        given = chosen | {
            each.key: toml_value(next(value for value in _VALUES if _accepts(each, value)))
            for each in options
            if each.required and each.key not in chosen
        }
        documents = refused.setdefault(schema, {})
        documents[_document(start, given)] = False
        documents[_document(start, given | {"nonsense": "1"})] = True
        for option in options:
            assert option.doc.endswith(".") or schema == "sweep", option.key
            for value in () if option.key in chosen else _VALUES:
                # A node may have any name, which is known with the topology.
                if not (option.node and type(value) is str):
                    document = _document(start, given | {option.key: toml_value(value)})
                    documents[document] = not _accepts(option, value)
    for schema, documents in refused.items():
        found = _refused(tmp_path, schema, documents)
        assert found == {text for text, is_wrong in documents.items() if is_wrong}


def _document(start: str, keys: dict[str, str]) -> str:
    lines = [f"{key} = {value}" for key, value in keys.items()]
    return "\n".join([start, *lines])


def test_a_schema_and_the_loader_refuse_the_same_files(tmp_path: Path) -> None:
    assert _refused(tmp_path, "experiment", _EXPERIMENTS) == set(_EXPERIMENTS)
    assert _refused(tmp_path, "sweep", _SWEEPS) == set(_SWEEPS)
    for text in (*_EXPERIMENTS, *_SWEEPS):
        path = tmp_path / "wrong.toml"
        path.write_text(text)
        with pytest.raises(InputError):
            pytest.fail(f"{load_spec(path).jobs() if text in _SWEEPS else load_experiment(path)}: {text}")
    # What a package adds is no error in an editor.
    assert _refused(tmp_path, "experiment", _OF_PACKAGES) == set()
