"""Faults of paths, arguments and the machine: one line and its exit status, never a traceback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from testbed.cli import arguments
from testbed.cli.main import main
from testbed.results.folders import find_run
from testbed.support.errors import MachineError, RunError, naming_a_full_disk
from testbed.terminal.progress import Progress
from testbed.terminal.summary import print_summary
from tests.support.cases import cases_beside
from tests.support.paths import ROOT
from tests.support.questions import empty_tables

_CBCB = [sys.executable, "-m", "testbed.cli.main"]
_RING = 'duration_s = 10\n[topology]\ngenerator = "ring"\nnodes = 5\n'
_reachable = all(
    path.stat().st_mode & 0o001
    for interpreter in (Path(sys.executable), Path(sys.executable).resolve())
    for path in interpreter.parents
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _failed(*command: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=240
    )
    return done.returncode, done.stderr.strip()


@needs_root
@pytest.mark.skipif(not _reachable, reason="another user cannot reach the interpreter")
def test_what_another_user_may_not_do_is_said(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    file = private / "first.toml"
    file.write_text(_RING)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *_CBCB]
    assert _failed(*nobody, "check", str(file)) == (2, f"cbcb: {file}: Permission denied")
    # Not "no runs": they may not be listed.
    refused = _failed(*nobody, "trace", "--runs", str(private))
    assert refused == (2, f"cbcb: {private}: Permission denied")


def test_names_that_are_too_long_are_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    name = "a" * 400
    assert refused("check", name) == f"cbcb: {name}: File name too long\n"
    with pytest.raises(OSError, match="File name too long"):
        find_run(tmp_path, name)
    assert refused("check", tmp_path) == f"cbcb: {tmp_path}: is a folder; expected an experiment file\n"


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_an_answer_does_not_go_into_a_folder(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str], form: str
) -> None:
    query = ["query", empty_tables(tmp_path / "run"), "select 1 as a", "--format", form, "-o"]
    assert refused(*query, tmp_path) == f"cbcb: {tmp_path}: Is a directory\n"
    printed(*query, tmp_path / "answer")
    if form == "parquet":
        assert pq.read_table(tmp_path / "answer").to_pylist() == [{"a": 1}]


def test_options_of_a_list_are_refused_for_one_message(tmp_path: Path, refused: Callable[..., str]) -> None:
    for option in (["--where", "a = 1"], ["--missed"]):
        said = refused("trace", "0:1", "--runs", tmp_path, *option)
        assert said == f"cbcb: {option[0]} lists messages; expected it without 0:1\n"


def test_the_hint_of_a_report_is_a_command_that_works(tmp_path: Path, refused: Callable[..., str]) -> None:
    run = tmp_path / "my runs" / "one"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    why = "has no summary.json; it cannot be accounted for without timings.json"
    assert why in refused("report", "--runs", run.parent)
    (run / "timings.json").write_text("{}")
    named, said = refused("report", "--runs", run.parent).splitlines()
    assert named == f"cbcb: {run}: the newest run"
    hint = shlex.split(said.split("`")[1])
    assert hint == ["cbcb", "account", str(run)]
    assert find_run(tmp_path, hint[2]) == run


@pytest.mark.parametrize(("option", "said"), cases_beside(__file__)["wrong_arguments"])
def test_wrong_arguments_are_said_in_words(
    capsys: pytest.CaptureFixture[str], option: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(option)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_masters_are_of_a_form_that_spark_takes() -> None:
    local = "local", "local[*, 3]", "local-cluster[2,1,9]"
    for url in *local, "spark://[::1]:1,b:2", "yarn", "k8s://https://a:4":
        assert arguments.master(url) == url
    for url in "", "local[]", "local[0]", "local[x]", "spark://one", "http://one:1", "spark://a:1,", "locals":
        with pytest.raises(ArgumentTypeError, match="expected local"):
            arguments.master(url)


def test_a_bracket_in_a_path_is_no_markup() -> None:
    out = StringIO()
    progress = Progress(Console(file=out, width=40))
    with progress.stage("key", "of br[/red]x"):
        progress.update("[bold]")
    progress.note("run folder: /a[red]b/br[/red]x")
    assert "✓ of br[/red]x 0.0 s\n" in out.getvalue()
    assert "run folder: /a[red]b/br[/red]x\n" in out.getvalue()


def test_the_path_of_the_report_is_one_line() -> None:
    out = StringIO()
    report = Path("/a" * 80) / "report.html"
    print_summary(Console(file=out, width=80), {}, report)
    assert out.getvalue().splitlines()[-1] == f"report: {report}"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_dev_null(tmp_path: Path, closed: str) -> None:
    # Each file that is opened would get the number of the closed stream, and the child's words with it.
    code = (
        "import subprocess; from testbed.support.processes import open_closed_streams; open_closed_streams();"
        f"file = open({str(tmp_path / 'file')!r}, 'w'); print('said');"
        "subprocess.run(['sh', '-c', 'echo child; echo child >&2'], check=True)"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {closed}"
    assert _failed("sh", "-c", command) == (0, "" if "2>" in closed else "child")
    assert (tmp_path / "file").read_text() == ""


_INTERRUPTED = """
import os, signal, sys, types
from testbed.cli import main as cli
def at_work(arguments):
    os.kill(os.getpid(), signal.{name})
    return 0
sys.modules["testbed.cli.check"] = types.SimpleNamespace(
    check_command=at_work, check_arguments=lambda parser: None
)
sys.exit(cli.main(["check"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_command_ends_in_order(name: str) -> None:
    code = _INTERRUPTED.format(name=name)
    # Whatever the starter of the tests ignores.
    command = ("env", f"--default-signal={name}", sys.executable, "-c", code)
    assert _failed(*command) == (130, "cbcb: interrupted")


def test_a_command_whose_terminal_is_closed_ends_in_order() -> None:
    ours, terminal = os.openpty()
    code = _INTERRUPTED.replace("os.kill(os.getpid(), signal.{name})", "print('up'); signal.pause()")
    command = ["env", "--default-signal=SIGHUP", "setsid", "--ctty", "--wait", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    assert os.read(ours, 2) == b"up"
    os.close(ours)  # the kernel sends SIGHUP to the leader of the session
    assert process.wait(60) == 130


def test_a_background_job_of_a_script_ends_by_sigint() -> None:
    code = _INTERRUPTED.format(name="SIGINT")
    ignoring = ("sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", code)
    assert _failed(*ignoring) == (130, "cbcb: interrupted")


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    code = _INTERRUPTED.format(name="SIGHUP")
    assert _failed("sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-c", code) == (0, "")


def test_an_interrupt_while_modules_load_is_no_fault(tmp_path: Path) -> None:
    """The command that run.sh writes, in a path with spaces, on modules that are interrupted as they load."""
    environment_folder = tmp_path / "a check out" / ".venv"
    (environment_folder / "bin").mkdir(parents=True)
    (environment_folder / "bin" / "python").symlink_to(sys.executable)
    text = (ROOT / "run.sh").read_text()
    begin = text.index("\ncommand_text() {")
    functions = text[begin : text.index("\n}\n", text.index("\nwrite_command() {")) + 2]
    script = f"venv={shlex.quote(str(environment_folder))}{functions}\nwrite_command"
    assert _failed("bash", "-euc", script) == (0, "")
    command = environment_folder / "bin" / "cbcb"
    package = tmp_path / "testbed" / "cli"
    package.mkdir(parents=True)
    (package / "main.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    interrupted = _failed("env", "--default-signal=INT", f"PYTHONPATH={tmp_path}", str(command))
    assert interrupted == (128 + signal.SIGINT, "cbcb: interrupted")
    before = command.stat().st_ino
    assert _failed("bash", "-euc", script) == (0, "")
    assert command.stat().st_ino == before


def write_much(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(1 << 20))


def write_much_and_remove_it(folder: Path) -> None:
    try:
        write_much(folder)
    finally:
        (folder / "large").unlink()


def die_of_it(folder: Path) -> None:
    try:
        write_much(folder)
    except OSError:
        raise RunError("router r4 ended with status 1: it said nothing") from None


def fail_on(folder: Path, fail: Callable[[Path], None]) -> None:
    """Ends the process as the command line would."""
    try:
        with naming_a_full_disk(folder):
            fail(folder)
    except MachineError as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)


@needs_root
@pytest.mark.parametrize(
    ("fail", "said"),
    [
        ("write_much", ""),
        ("write_much_and_remove_it", ""),
        ("die_of_it", " (router r4 ended with status 1: it said nothing)"),
    ],
)
def test_a_full_disk_is_named(fail: str, said: str) -> None:
    """In a mount namespace of its own, on a file system of 64 kB."""
    code = (
        "from pathlib import Path; from tests.unit.cli import test_faults as here;"
        f"here.fail_on(Path('/mnt'), here.{fail})"
    )
    mount = 'mount -t tmpfs -o size=64k tmpfs /mnt || exit 77; exec "$@"'
    status, wrong = _failed("unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", code)
    if status == 77:
        pytest.skip("mounting is not allowed here")
    assert (status, wrong) == (3, f"/mnt: No space left on device{said}")


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    file = tmp_path / "first.toml"
    file.write_text(_RING)
    simulate = shlex.join([*_CBCB, "simulate", str(file), "--runs", str(tmp_path / "runs")])
    status, wrong = _failed("bash", "-c", f"ulimit -f 1; exec {simulate}")
    run, what = wrong.splitlines()[-1].rsplit(": ", 1)
    assert (status, Path(run.removeprefix("cbcb: ")).parent, what) == (3, tmp_path / "runs", "File too large")


def test_other_faults_are_not_blamed_on_the_disk(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="died"), naming_a_full_disk(tmp_path):
        raise RunError("died")


def test_doctor_cuts_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    assert "…" not in capsys.readouterr().out
