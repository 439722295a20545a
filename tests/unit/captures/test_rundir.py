"""The run folder: names that stand once, records that are checked, files that are whole."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from captures.frames import CaptureIdentity
from captures.rundir import At, RunLayout
from captures.rundir.applications import ApplicationsFollower, read_applications
from captures.rundir.capture_list import CapturedFile, capture_paths, read_captures, write_captures
from captures.rundir.clock import read_clock
from captures.rundir.controller import ControllerLog, Failed, read_controller
from captures.rundir.document import FILES, records_of
from captures.rundir.files import (
    Follower,
    RunFolderError,
    parsed,
    read_json,
    read_lines,
    read_text,
    write_lines,
)
from captures.rundir.inputs import MANIFEST, Manifest, read_topology, write_topology
from captures.rundir.measures import (
    DROPS,
    ROUTERS,
    SwitchDrops,
    read_lag,
    read_routers_counters,
)
from captures.rundir.oracle import ORACLE, OracleAnswer
from captures.rundir.routing_tables import ROUTING_TABLES, TableRow, write_routing_tables
from captures.rundir.summary import SUMMARY, SUMMARY_KEYS, read_summary
from router.predicates.printer import format_predicate
from router.records.applications import ApplicationRecords, ConnectionRecords
from router.records.forms import fields
from router.records.json_file import write_json
from tests.support.applications import failed, records_in
from tests.support.cases import cases_beside
from tests.support.paths import ROOT
from topos.generators import ring

#: Where the names are spelled; this module looks for them, and the document is made from the layout.
_LAYOUT = Path("captures/rundir/__init__.py")
#: A path of a run folder that ends in one of these is a file whose name must stand in the layout alone.
_SUFFIXES = (".json", ".jsonl", ".toml", ".html", ".log", ".err")
#: Names that are ordinary words, of which a quoted one need not mean the folder.
_WORDS = {"figures", "pcap", "counters", "logs", "recordings", "parquet", "routers"}

_Anything = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    found = RunLayout(tmp_path)
    for folder in (found.logs_folder, found.captures_folder, found.counters_folder):
        folder.mkdir()
    return found


def _names() -> set[str]:
    """The name of every file and folder of a run folder, placeholders left out."""
    paths = [path for file in FILES for path in file.names(RunLayout(Path()))]
    names = {part for path in paths for part in path.parts}
    return {name for name in names if not set("<*") & set(name)}


def test_every_property_of_the_layout_is_in_the_document() -> None:
    run = RunLayout(Path())
    documented = {path for file in FILES for path in file.names(run)}
    documented |= {parent for path in documented for parent in path.parents}
    properties = [name for name, value in vars(RunLayout).items() if isinstance(value, At)]
    assert len(properties) > 30
    assert [name for name in properties if getattr(run, name) not in documented] == []


def test_the_names_of_the_run_folder_stand_in_the_layout_alone() -> None:
    files = {name for name in _names() if name.endswith(_SUFFIXES)}
    assert {"topology.json", "manifest.json", "controller.jsonl", "routers.json", "spark.log"} <= files
    quoted = re.compile(rf"""["'/](?:{"|".join(map(re.escape, sorted(files)))})["']""")
    folders = re.compile(rf"""/ f?["'](?:{"|".join(sorted(_names() & _WORDS))})["'/]""")
    spelled = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for package in ("router", "topos", "captures", "testbed")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.relative_to(ROOT) != _LAYOUT
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if quoted.search(line) or folders.search(line)
    ]
    assert spelled == []


def test_every_field_of_every_record_has_a_meaning() -> None:
    records = [record for file in FILES for _, record in records_of(file)]
    assert len(records) > 15
    assert [
        f"{record.__name__}.{field.name}"
        for record in records
        for field in fields(record)
        if not field.meaning and field.name != "event"
    ] == []


def test_what_is_written_reads_back(run: RunLayout) -> None:
    topology = ring(3)
    write_topology(run, topology)
    assert read_topology(run) == topology
    manifest = Manifest(
        datapath="user", started_ns=7, evidence=["a"], inputs={}, tag="b", senders=[1], receivers=[0, 2]
    )
    MANIFEST.write(run, manifest)
    assert MANIFEST.read(run) == manifest
    # A record may have fields of another version.
    run.manifest.write_text(json.dumps({**manifest, "more": []}))
    assert MANIFEST.read(run)["tag"] == "b"
    routers = {1: {"frames_sent": {"RA": 2}, "frames_received": {}, "ras_issued": 2}}
    ROUTERS.write(run, routers)
    assert read_routers_counters(run) == routers
    assert DROPS.read(run) == {}
    drops = {3: SwitchDrops(controller_source=2, no_rule=1)}
    DROPS.write(run, drops)
    assert DROPS.read(run) == drops
    assert ROUTING_TABLES.read(run) == {}
    row = TableRow(interface=0, scope="", predicate="a = 1")
    for tables in ({1: [], 2: [row, row]}, {}):
        write_routing_tables(run, tables.items())
        assert ROUTING_TABLES.read(run) == tables
    answer = OracleAnswer(source=1, seq=2**63, sent_ns=5, node=0, app="x", expected=True, decided=False)
    ORACLE.write(run, [answer])
    assert list(ORACLE.read(run)) == [(f"{run.oracle}:1", answer)]


def test_captures_have_the_index_of_their_link(run: RunLayout) -> None:
    write_topology(run, ring(3))
    # While there is no list, those that the topology has.
    expected = {str(run.capture(name)) for name in ("link-0-1", "link-1-2", "link-2-0")}
    assert {path for path, identity in capture_paths(run).items() if identity.kind == "link"} == expected
    link = CaptureIdentity("link-1-2", "link", 1, 1, 2)
    host = CaptureIdentity("host-0", "host", node=0)
    captures = [
        CapturedFile(identity, run.relative(run.capture(identity.name)), "device", 5, 6, 1)
        for identity in (link, host)
    ]
    write_captures(run.captures, captures)
    assert read_captures(run) == captures
    assert capture_paths(run) == {str(run.capture("link-1-2")): link, str(run.capture("host-0")): host}
    entries = json.loads(run.captures.read_text())
    for outside in ("../../etc/shadow", "/etc/shadow"):
        run.captures.write_text(json.dumps([entries[0] | {"file": outside}]))
        with pytest.raises(RunFolderError, match=r"0: file: .*expected a path in the run folder"):
            read_captures(run)
    entries[0]["u"] = 7
    run.captures.write_text(json.dumps(entries))
    with pytest.raises(RunFolderError, match=r"0: .*u 7.*expected a link of the topology or a host"):
        read_captures(run)


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    with pytest.raises(RunFolderError, match=f"{path}: missing"):
        list(read_lines(path, partial(parsed, _Anything)))
    with pytest.raises(RunFolderError, match=f"{path}: missing"):
        read_json(path, _Anything)
    path.write_text('{"a": "\u2028"}\n\n[1]\n')
    found = read_lines(path, partial(parsed, _Anything))
    assert next(found) == (f"{path}:1", {"a": "\u2028"})
    with pytest.raises(RunFolderError, match=f"{path}:3: Expected `object`, got `array`"):
        next(found)
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(RunFolderError, match=f"{path}:1: expected JSON"):
        list(read_lines(path, partial(parsed, _Anything)))
    with pytest.raises(RunFolderError, match=f"{path}: expected JSON"):
        read_json(path, _Anything)
    with pytest.raises(RunFolderError, match=f"{path}: expected text in UTF-8"):
        read_text(path)
    with pytest.raises(RunFolderError, match=f"{tmp_path}: Is a directory; expected a file of a run"):
        read_json(tmp_path, _Anything)


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path, _Anything) == {"a": 1}

    def failing() -> list[dict[str, object]]:
        return [{"b": 1}, {"b": object()}]

    (tmp_path / f"file.{2**31}.new").write_text("left by a process that is gone")
    with pytest.raises(TypeError):
        write_lines(path, failing())
    assert read_json(path, _Anything) == {"a": 1}
    write_lines(path, [{"b": "é"}, {"b": "\udc80"}])
    assert path.read_text() == '{"b":"é"}\n{"b":"?"}\n'
    assert sorted(file.name for file in tmp_path.glob("file.*.new")) == []


def _whole(run: RunLayout) -> list[tuple[str, str | None]]:
    """Every event, and the whole predicate in force after it."""
    return [
        (
            recorded.event["event"],
            None if recorded.change is None else format_predicate(recorded.change.in_force),
        )
        for _, recorded in read_applications(run)
    ]


def test_requests_of_applications_add_up_to_their_predicates(run: RunLayout) -> None:
    records = records_in(run.path, 1)
    requests: list[tuple[str, dict[str, object], dict[str, object]]] = [
        ("é", {"op": "set_predicate", "predicate": "a < 3"}, {}),
        ("é", {"op": "subscribe", "predicate": 'b = "x"'}, {"subscription": 1}),
        ("é", {"op": "subscribe", "predicate": "a < 3 or c any string"}, {"subscription": 2}),
        ("other", {"op": "subscribe", "predicate": "a = 1"}, {"subscription": 1}),
        ("é", {"op": "unsubscribe", "subscription": 1}, {}),
        ("é", {"op": "set_predicate", "predicate": "none"}, {}),
        ("é", {"op": "subscribe", "predicate": "d = 4"}, {"subscription": 3}),
        ("é", {"op": "unsubscribe"}, {}),
    ]
    for t_ns, (app, request, answer) in enumerate(requests):
        records.served(t_ns + 1, 1, app, t_ns, request, {"ok": True, **answer})
    records.disconnected(9, 1, "other", 8)
    records.close()
    assert _whole(run) == [
        ("set_predicate", "a < 3"),
        ("subscribe", 'a < 3 or b = "x"'),
        ("subscribe", 'a < 3 or b = "x" or c any string'),
        ("subscribe", "a = 1"),
        ("unsubscribe", "a < 3 or c any string"),
        ("set_predicate", "a < 3 or c any string"),
        ("subscribe", "a < 3 or c any string or d = 4"),
        ("unsubscribe", "none"),
        ("disconnect", "none"),
    ]


def test_events_of_applications_read_back(run: RunLayout) -> None:
    records = records_in(run.path, 0)
    records.connected(1, 0, "b")
    records.served(
        3, 0, "b", 2, {"op": "send_message", "attributes": {"a": 1.0}}, {"source": 0, "seq": 2**63}
    )
    records.served(4, 0, "b", 3, {"op": "send_message", "message": 'a = "é"'}, {"source": 0, "seq": 5})
    records.delivered(5, 0, 'q"é', 0, 2**63)
    records.undelivered(6, 0, "b", 0, 5)
    records.disconnected(8, 0, "b", 7)
    records.close()
    of_a_message = {"t_ns": 5, "node": 0, "source": 0, "seq": 2**63}
    assert [recorded.event for _, recorded in read_applications(run)] == [
        {"event": "connect", "t_ns": 1, "node": 0, "app": "b"},
        {"event": "send_message", **of_a_message, "t_ns": 3, "app": "b", "requested_ns": 2}
        | {"attributes": {"a": 1.0}},
        {"event": "send_message", **of_a_message, "t_ns": 4, "app": "b", "requested_ns": 3}
        | {"attributes": {"a": "é"}, "seq": 5},
        {"event": "deliver", **of_a_message, "app": 'q"é'},
        {"event": "lose", **of_a_message, "t_ns": 6, "app": "b", "seq": 5},
        {"event": "disconnect", "t_ns": 8, "node": 0, "app": "b", "requested_ns": 7},
    ]


def test_records_of_applications_are_followed_while_routers_write_them(run: RunLayout) -> None:
    follower = ApplicationsFollower(run)
    assert follower.read() == []
    first, second = records_in(run.path, 1), records_in(run.path, 2)
    first.delivered(1, 1, "a", 0, 1)
    assert follower.read() == []
    due = first.next_deadline()
    assert due is not None and second.next_deadline() is None
    first.tick(due)
    second.delivered(2, 2, "a", 0, 1)
    second.close()
    assert sorted(recorded.event["node"] for recorded in follower.read()) == [1, 2]
    first.delivered(3, 1, "a", 0, 2)
    first.close()
    assert [recorded.event["t_ns"] for recorded in follower.read()] == [3]


def _member_records(run: RunLayout, process: int) -> ApplicationRecords:
    """The records of a member on node 1 of a run with privacy."""
    MANIFEST.write(run, Manifest(datapath="user", started_ns=1, evidence=[], inputs={}, private=True))
    run.applications_folder.mkdir(exist_ok=True)
    return ApplicationRecords(run.application_of_member(1, process), failed)


def _subscribes(records: ApplicationRecords, t_ns: int, predicate: str, app: str = "m") -> None:
    records.served(
        t_ns, 1, app, t_ns - 1, {"op": "subscribe", "predicate": predicate}, {"ok": True, "subscription": 1}
    )


def test_a_router_ends_the_predicates_of_a_member_that_was_killed(run: RunLayout) -> None:
    """The application had no time for a record; the next process takes its name."""
    killed, following = _member_records(run, 10), _member_records(run, 11)
    router = ConnectionRecords(run.applications_of(1), failed)
    router.connected(1, 1, "m")
    # Of what the router served and handed over, members write the records.
    router.served(2, 1, "m", 1, {"op": "subscribe", "encoded": "00"}, {"ok": True, "subscription": 1})
    router.delivered(3, 1, "m", 0, 1)
    router.disconnected(20, 1, "m", 19)
    # The router names the application when it serves the first request, by the time of the connection.
    router.connected(15, 1, "m")
    router.undelivered(40, 1, "m", 0, 1)
    router.disconnected(41, 1, "m", 40)
    _subscribes(killed, 5, "a < 3")
    _subscribes(following, 30, "c = 1")
    for records in (router, killed, following):
        records.close()
    assert _whole(run) == [
        ("connect", None),
        ("subscribe", "a < 3"),
        ("disconnect", "none"),
        ("connect", None),
        ("subscribe", "c = 1"),
        ("lose", None),
        ("disconnect", "none"),
    ]


def test_an_answer_read_after_the_end_of_the_connection_puts_nothing_in_force(run: RunLayout) -> None:
    member, router = _member_records(run, 10), ConnectionRecords(run.applications_of(1), failed)
    router.connected(1, 1, "m")
    router.disconnected(20, 1, "m", 19)
    _subscribes(member, 21, "b = 1")
    for records in (router, member):
        records.close()
    assert _whole(run) == [("connect", None), ("disconnect", None), ("subscribe", None)]


def test_events_of_members_are_followed_in_order_of_time(run: RunLayout) -> None:
    """A router writes later than a member: what is too young waits."""
    follower = ApplicationsFollower(run)
    member, router = _member_records(run, 10), ConnectionRecords(run.applications_of(1), failed)
    now_ns = time.time_ns()
    _subscribes(member, 5, "a < 3")
    _subscribes(member, now_ns + 60 * 10**9, "c = 1", "other")
    member.close()
    assert [recorded.event["t_ns"] for recorded in follower.read()] == [5]
    router.connected(now_ns - 5 * 10**9, 1, "other")
    router.disconnected(now_ns - 10**9, 1, "m", now_ns - 2 * 10**9)
    router.close()
    found = follower.read()
    assert [recorded.event["event"] for recorded in found] == ["connect", "disconnect"]
    assert found[1].change is not None and not found[1].change.in_force


def test_an_unfinished_last_record_is_left_out(run: RunLayout) -> None:
    records = records_in(run.path, 1)
    records.delivered(1, 1, "a", 0, 1)
    records.close()
    with run.applications_of(1).open("a") as file:
        file.write('{"event":"deliver","t_n')
    assert [event for event, _ in _whole(run)] == ["deliver"]


def test_records_wait_while_the_disk_is_full_and_then_none_is_lost(run: RunLayout) -> None:
    failures: list[OSError] = []
    path = run.path / "records"
    path.symlink_to("/dev/full")
    records = ApplicationRecords(path, failures.append)
    for seq in range(3000):
        records.delivered(seq, 1, "a", 0, seq)
    records.flush()
    assert [failure.strerror for failure in failures] == ["No space left on device"]
    # There is space again.
    run.applications_folder.mkdir()
    records._file = os.open(run.applications_of(1), os.O_WRONLY | os.O_CREAT)
    records.close()
    assert records.lost == 0
    found = [recorded.event for _, recorded in read_applications(run)]
    assert [event["seq"] for event in found if event["event"] == "deliver"] == list(range(3000))


def test_records_that_find_no_room_are_counted(run: RunLayout) -> None:
    failures: list[OSError] = []
    nowhere = ApplicationRecords(run.path / "no" / "such" / "folder", failures.append)
    full = ApplicationRecords("/dev/full", failures.append)
    for records in (nowhere, full):
        for seq in range(100_000):
            records.delivered(seq, 1, "a", 0, seq)
        assert len(records._waiting) <= 4 * 1024 * 1024
        records.close()
        assert records.lost == 100_000
    assert [failure.strerror for failure in failures] == [
        "No such file or directory",
        "No space left on device",
    ]


def test_events_of_the_controller_read_back(run: RunLayout) -> None:
    assert list(read_controller(run.controller_log)) == []
    with closing(ControllerLog(run.controller_log)) as log:
        log.write("failed", Failed(error="x"), 5)
        log.write("of a later version", {"a": 1}, 6)
    assert [event for _, event in read_controller(run.controller_log)] == [
        {"t_ns": 5, "event": "failed", "error": "x"},
        {"t_ns": 6, "event": "of a later version", "a": 1},
    ]


def test_a_follower_takes_whole_lines_and_names_bad_ones(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = Follower(path, lambda where, line: (where, parsed(_Anything, where, line)["a"]))
    assert follower.read() == []
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert follower.read() == [(f"{path}:1", 1), (f"{path}:2", 2)]
    assert follower.read() == []
    with path.open("a") as file:
        file.write(": 3}\n{\n")
    with pytest.raises(RunFolderError, match=f"{path}:4: expected JSON"):
        follower.read()


_READERS: dict[str, Callable[[RunLayout], object]] = {
    "routers_counters": read_routers_counters,
    "applications": lambda run: list(read_applications(run)),
    "controller_log": lambda run: list(read_controller(run.controller_log)),
    "clock": read_clock,
    "lag": read_lag,
    "manifest": MANIFEST.read,
    "summary": read_summary,
}
_MALFORMED: dict[str, list[dict[str, str]]] = cases_beside(__file__)
_DIGITS = f'{{"1": {{"frames_sent": {{"RA": {"9" * 400}}}, "frames_received": {{}}}}}}'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        *(
            (name, each.get("content"), each["problem"])
            for name, cases in _MALFORMED.items()
            for each in cases
        ),
        ("routers_counters", _DIGITS, "an integer of 400 digits"),
    ],
)
def test_malformed_files_are_named(run: RunLayout, name: str, content: str | None, problem: str) -> None:
    run.applications_folder.mkdir()
    path: Path = run.applications_of(1) if name == "applications" else getattr(run, name)
    if content is not None:
        path.write_text(content + "\n" * bool(content))
    with pytest.raises(RunFolderError, match=f"{re.escape(str(path))}.*{re.escape(problem)}"):
        _READERS[name](run)


@pytest.mark.attack("hostile run folder")
@pytest.mark.parametrize("key", SUMMARY_KEYS)
def test_a_value_of_the_wrong_type_is_an_error_that_names_file_and_key(run: RunLayout, key: str) -> None:
    hostile: list[Any] = [[[]], {"x": "y"}]
    for wrong in hostile:
        SUMMARY.write(run, {key: wrong})
        with pytest.raises(RunFolderError, match=rf"summary.json: {key}(\.x|\[0\])?: .*(expected: |has no )"):
            read_summary(run)
    SUMMARY.write(run, {key: None})
    assert read_summary(run) == {key: None}
