"""The command line reports every fault of the user or the machine in one line with its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import testbed
from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST, Manifest
from router.protocol.counters import Counters
from testbed.cli.main import COMMANDS, main
from testbed.machine.checks import check_machine
from testbed.machine.probes import kernel_features
from tests.support.cases import cases_beside
from tests.support.paths import DOCS, ROOT

#: The recording of a live router.
LIVE = ROOT / "tests" / "conformance" / "live-figure-4" / "r2.rec"


def _cbcb(*arguments: str, python: str = sys.executable, nobody: bool = False) -> tuple[int, str, str]:
    """Returns the exit status, and what was printed and said."""
    command = [python, "-m", "testbed.cli.main", *arguments]
    if nobody:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr.strip()


Cbcb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cbcb(capsys: pytest.CaptureFixture[str]) -> Cbcb:
    """As `_cbcb`, within this process."""

    def command(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err.strip()

    return command


def _experiment(folder: Path, text: str) -> str:
    path = folder / "experiment.toml"
    path.write_text(text)
    return str(path)


def test_the_page_of_commands_has_every_command_and_readme_no_other() -> None:
    def listed(page: Path) -> set[str]:
        cells = re.findall(r"^\| (`.*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
        return {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)}

    assert listed(DOCS / "reference/commands.md") == set(COMMANDS)
    of_readme = listed(ROOT / "README.md")
    assert of_readme and of_readme < set(COMMANDS)


def test_one_command_alone_declares_no_arguments() -> None:
    """A function with a misspelt name would leave its command without options."""
    modules = {name: import_module(f"testbed.cli.{module}") for name, (module, _) in COMMANDS.items()}
    without = {name for name, module in modules.items() if not hasattr(module, f"{name}_arguments")}
    assert without == {"doctor"}


def test_help_on_a_command_comes_at_once() -> None:
    """It loads none of the libraries that take long; what the command itself needs is not imported yet."""
    script = (
        "import sys\nfrom contextlib import suppress\nfrom testbed.cli.main import COMMANDS, main\n"
        "for command in COMMANDS:\n    with suppress(SystemExit):\n        main([command, '--help'])\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    printed = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert re.findall(r"^usage: cbcb (\w+)", printed, re.MULTILINE) == list(COMMANDS)
    slow = {"pyspark", "pandas", "pyarrow", "matplotlib", "duckdb", "scapy", "ryu", "numba"}
    assert slow & set(printed.splitlines()[-1].split()) == set()


def test_a_seed_may_be_given_by_itself_and_the_usage_is_that_of_the_command() -> None:
    _, printed, _ = _cbcb("check", "ring5", "--seed", "7")
    assert "seed        7" in printed
    status, _, said = _cbcb("check", "ring5", "--sed", "7")
    assert status == 2
    assert said.startswith("usage: cbcb check ")
    assert said.endswith("cbcb check: error: unrecognized arguments: --sed 7")
    assert _cbcb("keys", "show", "f", "--sed")[2].startswith("usage: cbcb keys show [-h] file\n")
    assert _cbcb("link", "0", "3")[2].endswith("the following arguments are required: state")


def test_the_version_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["dynamic"] == ["version"]
    assert declared["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "testbed.__version__"}
    assert _cbcb("--version") == (0, f"cbcb {testbed.__version__}\n", "")


@pytest.mark.parametrize(("arguments", "said"), cases_beside(__file__)["faults"])
def test_a_fault_of_an_experiment_or_argument_is_one_line(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _experiment(tmp_path, "duration_s = 10\n[topology\n")
    assert main([file if each == "FILE" else each for each in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cbcb: ") and said.replace("FILE", file) in line


def test_another_interpreter_is_recognised() -> None:
    if Path("/usr/bin/python3").resolve() == Path(sys.executable).resolve() and sys.prefix == sys.base_prefix:
        pytest.skip("the tests run on the system's own interpreter")
    status, _, said = _cbcb("run", python="/usr/bin/python3")
    assert status == 3
    assert "wrong interpreter?" in said
    assert "\n" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be able to give it up")
def test_without_root_the_run_is_refused_and_says_how(tmp_path: Path) -> None:
    interpreter = Path(sys.executable)
    if any(
        not path.stat().st_mode & 0o001 for path in (*interpreter.parents, *interpreter.resolve().parents)
    ):
        pytest.skip("another user cannot reach the interpreter")
    status, _, said = _cbcb("run", "--runs", str(tmp_path), nobody=True)
    assert status == 3
    assert "not root" in said
    assert "sudo ./run.sh" in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_none_is_refused(tmp_path: Path, cbcb: Cbcb) -> None:
    for command in ("account", "report"):
        for place, why in (("--runs", "no runs in"), ("--", "not a run folder")):
            status, _, said = cbcb(command, place, str(tmp_path))
            assert (status, why in said) == (2, True)


_LINKS = "\n[links]\ndelay_ms = 5\n"
_EVENT = '\n[[events]]\nat_s = 0.5\naction = "link_impair"\nlink = [0, 1]\n'


@pytest.mark.root
@pytest.mark.parametrize(
    ("asked", "more"),
    [(_LINKS, 2), (f"{_EVENT}delay_ms = 5\nreorder_percent = 3\n", 1)],
    ids=["declared", "event"],
)
def test_a_netem_request_is_refused_before_anything_starts(
    tmp_path: Path, asked: str, more: int, cbcb: Cbcb
) -> None:
    if any(check.required and not check.ok for check in check_machine()):
        pytest.skip("this machine cannot emulate at all")
    if kernel_features().netem:
        pytest.skip("this kernel has netem")
    text = f'duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 3\n{asked}'
    file, runs = _experiment(tmp_path, text), tmp_path / "runs"
    named = f"link 0-1 asks for delay_ms = 5, which needs the kernel's sch_netem (and {more} more properties)"
    status, printed, _ = cbcb("check", file)
    assert (status, f"refused here: {named}" in printed.splitlines()) == (3, True)
    status, _, said = cbcb("run", file, "--runs", str(runs))
    assert (status, said.startswith(f"cbcb: {named}; load it (`modprobe sch_netem`")) == (3, True)
    assert (said.count("\n"), runs.exists()) == (0, False)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A run folder with the recording of router 2, and no more than `cbcb replay` needs."""
    _write_manifest(tmp_path, "recordings/r2.rec")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "r2.rec").write_bytes(LIVE.read_bytes())
    return tmp_path


def _write_manifest(run: Path, *evidence: str) -> None:
    MANIFEST.write(
        RunLayout(run), Manifest(datapath="user", started_ns=1, evidence=list(evidence), inputs={})
    )


def _write_counters(run: Path, counters: dict[str, object]) -> None:
    RunLayout(run).counters_folder.mkdir()
    frames: dict[str, object] = {"frames_sent": {}, "frames_received": {}}
    RunLayout(run).routers_counters.write_text(json.dumps({"2": frames | counters}))


def test_replay_of_a_run_without_recordings_says_what_makes_them(tmp_path: Path, cbcb: Cbcb) -> None:
    _write_manifest(tmp_path)
    assert cbcb("replay", str(tmp_path))[::2] == (
        2,
        f"cbcb: {tmp_path}: no recordings; an emulation with record = true makes them",
    )


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        (
            lambda recording: recording,
            0,
            ["r2: the run left no counters and tables to compare with", "answers equal the live run's"],
        ),
        (lambda recording: recording[:3000], 0, ["r2: the recording is cut: its last "]),
        (
            lambda recording: recording.replace(b'"sr_policy":"periodic"', b'"sr_policy":"never"   '),
            1,
            [
                "tick; live: send through interfaces 1, 2, 3: SR 2/",
                "; replayed: nothing",
                "Replay: not as in the live run: r2 of 1 router\n",
            ],
        ),
    ],
    ids=["unchanged", "cut", "other answers"],
)
def test_a_replay_says_whether_the_core_still_answers_so(
    recorded: Path, changed: Callable[[bytes], bytes], status: int, said: list[str], cbcb: Cbcb
) -> None:
    (recorded / "recordings" / "r2.rec").write_bytes(changed(LIVE.read_bytes()))
    ended, printed, _ = cbcb("replay", str(recorded))
    assert ended == status
    assert [text for text in said if text not in printed] == []


def test_a_replay_shows_what_a_router_was_given_and_misses_a_recording_that_is_gone(
    recorded: Path, cbcb: Cbcb
) -> None:
    status, said, _ = cbcb("replay", str(recorded), "--node", "2", "--show")
    assert status == 0
    assert "\nr2     pass on through interfaces 1, 3\n" in said
    # A router that has no recording is refused.
    assert cbcb("replay", str(recorded), "--node", "r5")[::2] == (
        2,
        "cbcb: --node 5: no recording of it; expected one of 2",
    )
    _write_manifest(recorded, "recordings/r2.rec", "recordings/r4.rec")
    status, said, _ = cbcb("replay", str(recorded))
    assert status == 1
    assert "r4: recordings/r4.rec is missing, which manifest.json lists\n" in said
    assert "Replay: 1 router, " in said


def test_a_replay_prints_the_tables_of_a_moment(recorded: Path, cbcb: Cbcb) -> None:
    clock = recorded / "clock.jsonl"
    status, _, said = cbcb("replay", str(recorded), "--at", "1")
    assert (status, said.split(";")[0]) == (2, f"cbcb: {clock}: missing")
    # The recording begins at this time of the wall clock; two seconds later node 5 wants `price < 400`.
    (recorded / "logs" / "applications").mkdir(parents=True)
    piece = {"t_ns": 1795290245819883858, "monotonic_ns": 0, "experiment_s": 0, "rate": 4}
    clock.write_text(json.dumps(piece) + "\n")
    assert cbcb("replay", str(recorded), "--at", "2") == (0, "r2, epoch 1\n    2 (node 3): price < 400\n", "")


def test_a_replay_compares_counters_without_what_the_link_dropped(recorded: Path, cbcb: Cbcb) -> None:
    live = dict.fromkeys(Counters().as_dict(), 0) | {"messages_sent": 7}
    _write_counters(recorded, {**live, "dropped": {"reverse_path": 3, "truncated": 2}})
    status, said, _ = cbcb("replay", str(recorded))
    assert status == 1
    assert "r2: messages_sent: live 7, replayed 1" in said
    assert "r2: dropped reverse_path: live 3, replayed 0" in said
    assert "truncated" not in said


def test_a_recording_that_cannot_be_read_keeps_no_other_from_being_replayed(
    recorded: Path, cbcb: Cbcb
) -> None:
    _write_counters(recorded, {"messages_sent": 7, "dropped": {}})
    bad = recorded / "recordings" / "r1.rec"
    bad.write_bytes(b"something else")
    _write_manifest(recorded, "recordings/r1.rec", "recordings/r2.rec")
    status, said, wrong = cbcb("replay", str(recorded))
    assert (status, wrong) == (2, "cbcb: no usable recording of r1")
    assert f"r1: {bad}: not the recording of a router\n" in said
    assert "r2: messages_sent: live 7, replayed 1" in said


def test_a_command_starts_again_in_huge_pages_and_its_children_do_not() -> None:
    script = "import os, sys; from testbed.support.usage import start_again_in_huge_pages as start; start()"
    show = "print(b'hugetlb=1' in open('/proc/self/environ', 'rb').read(), os.environ.get('PYTHONMALLOC'))"
    argv = [sys.executable, "-c", f"{script}; {show}"]
    assert subprocess.check_output(argv, cwd=ROOT, text=True) == "True None\n"
