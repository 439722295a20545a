"""The parent of the routers: the modules that it loads and the specs that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from router.clock import ClockPage, Piece
from router.protocol.options import RouterOptions
from router.records.json_file import to_json
from router.runtime.parent import Parent, read_specs
from router.runtime.process import RouterSpec, _clock_page

SPEC = RouterSpec(
    1, "eth0", 77, "/tmp/a.sock", "/tmp/a.json", "/tmp/a.log", RouterOptions(hop_limit=3), seed=5
)

_JSON = json.loads(to_json(SPEC))


def test_a_router_that_is_started_later_has_known_fields_alone() -> None:
    with pytest.raises(ValueError, match="colour: no such field"):
        Parent()._request({"start": {**_JSON, "colour": 1}})


def test_specs_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "specs.json"
    path.write_text(json.dumps([_JSON]))
    assert read_specs(path) == [SPEC]


def _second(**fields: object) -> str:
    """Two specs, the second with other fields."""
    return json.dumps([_JSON, {**_JSON, **fields}])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("[", "expected JSON"),
        ("{}", "Expected `array`, got `object`"),
        ("[3]", "Expected `object`, got `int`"),
        ('[{"node": 1}]', "missing required field `device`"),
        (_second(options={"hop_limit": 0}), "hop_limit: 0 is not valid; expected an integer from 1 to 255"),
        (_second(options={"colour": 0}), r"1\.options\.colour: no such field; expected .*hop_limit, "),
        (_second(node="1"), "Expected `int`, got `str` - at `.*node`"),
        (_second(matcher="fast"), "matcher: 'fast'; expected one of compiled"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str, error: str) -> None:
    path = tmp_path / "specs.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=error):
        read_specs(path)


def test_routers_that_are_started_again_leave_no_descriptor_of_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    ClockPage.create(path, 1, Piece(0, 0.0, 1.0)).close()
    page = _clock_page(str(path))
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(3):
        assert _clock_page(str(path)) is page
    assert set(Path("/proc/self/fd").iterdir()) <= before
