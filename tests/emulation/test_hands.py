"""Commands on a running emulation: the session of docs/how-to/running-network.md, and its verdict."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from captures.rundir.faults import read_commands
from tests.support.command import CBCB, Held, output_of
from tests.support.paths import DOCS, ROOT

pytestmark = pytest.mark.emulation

_PROMPT = "cbcb> "


def _transcript() -> list[str]:
    """The lines of the documented session."""
    _, _, rest = (DOCS / "how-to/running-network.md").read_text().partition(f"```\n{_PROMPT}")
    return (_PROMPT + rest.partition("```")[0]).splitlines()


def _steady(lines: list[str]) -> list[str]:
    """The lines without times and numbers that differ from run to run."""
    text = "\n".join(lines)
    for pattern, instead in (
        (r"[+-][\d.]+ ms", "+T ms"),
        (r"[\d.]+ s( \(experiment time\)| after its sending)", r"T s\1"),
        (r"sequence number \d+, epoch \d+", "sequence number N, epoch N"),
        (r"cli-\d+", "cli-PID"),
    ):
        text = re.sub(pattern, instead, text)
    return text.splitlines()


def _cbcb(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CBCB, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=240, check=False
    )


def test_the_documented_session_works_and_is_accounted_for(held: Callable[..., Held]) -> None:
    run = held("ring,5", waits=False)
    tag = run.tag
    assert "takes no commands" in _cbcb("link", "--run", tag, "0", "1", "down").stderr
    run.wait()
    assert (run.own / "control.sock").stat().st_mode & 0o777 == 0o600

    expected = _transcript()
    lines = [line.removeprefix(_PROMPT) for line in expected if line.startswith(_PROMPT)]
    session = output_of("cli", "--run", tag, stdin="\n".join([*lines, ""]))
    assert _steady(session.splitlines()) == _steady(expected)

    entered = output_of("exec", "--run", tag, "2", "--", "ip", "-brief", "link")
    assert sorted(line.split("@")[0].split()[0] for line in entered.splitlines()) == ["lo", "r2-eth0"]
    assert _cbcb("exec", "--run", tag, "r2", "--", "sh", "-c", "exit 7").returncode == 7
    refused = _cbcb("link", "--run", tag, "0", "2", "down")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "nodes 0 and 2 are not joined" in refused.stderr
    wrong = _cbcb("cli", "--run", tag, stdin="links\nlink 0 1 sideways\nnodes\n")
    assert (wrong.returncode, "nodes" in wrong.stdout) == (2, False)
    assert "sideways: expected up or down" in wrong.stderr

    summary = run.end()
    assert [one["command"] for one in read_commands(run.folder)] == [
        "exec 0 -- echo node $CBCB_NODE",
        "link 0 1 down",
        "link 0 1 up",
        "node 4 down",
        "node 4 up",
        "exec 2 -- ip -brief link",
        "exec 2 -- sh -c 'exit 7'",
    ]
    assert summary["held"]
    assert (summary["messages_sent"], summary["deliveries_made"]) == (2, 2)
    changed = [event for change in summary["recovery_s"] for event in change["events"]]
    # The controller may see the link go and come within one epoch, and a node by the ends of its links.
    seen = {f"link_{way} {link}" for way in ("down", "up") for link in ("0-1", "3-4", "4-0")}
    assert changed
    assert set(changed) <= seen | {"node_down 4", "node_up 4"}
