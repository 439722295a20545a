"""The commands on a private run: they say "encoded" where there is nothing to read, and work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from router.privacy import EncodingParameters, KeyRing, write_keys
from testbed.cli.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    """A simulation with keys of a file, accounted for without Spark."""
    folder = tmp_path_factory.mktemp("private")
    keys = folder / "ring.keys"
    write_keys(keys, KeyRing.new(EncodingParameters(bits=256, hashes=7)))
    chosen = ("privacy.mode=bloom", f"privacy.key_file={keys}", "duration_s=60")
    arguments = [word for each in chosen for word in ("--set", each)]
    status = main(["simulate", "ring5", "--runs", str(folder), "--engine", "duckdb", *arguments])
    assert status == 0
    (manifest,) = folder.glob("*/manifest.json")
    assert json.loads(keys.read_text()) == json.loads(RunLayout(manifest.parent).keys.read_text())
    return RunLayout(manifest.parent)


def test_trace(run: RunLayout, printed: Callable[..., str]) -> None:
    rows = [json.loads(line) for line in printed("trace", run.path, "--json").splitlines()]
    assert len(rows) > 10
    reached = max(rows, key=lambda row: row["delivered"])
    text = printed("trace", run.path, f"{reached['source']}:{reached['number']}")
    assert "encoded" in text
    assert "delivered" in text


def test_query(run: RunLayout, printed: Callable[..., str]) -> None:
    summary = json.loads(run.summary.read_text())
    causes = "coalesce(discard_cause, 'kept') as cause, count(*) as n from private_deliveries group by 1"
    by_cause = printed("query", run.path, f"select {causes}", "--format", "json")
    counted = {row["cause"]: row["n"] for row in map(json.loads, by_cause.splitlines())}
    assert counted.pop("kept") == summary["private"]["kept"] > 0
    assert counted == summary["private"]["discarded"]
    assert "encoded" in printed("query", run.path, "select distinct predicate from routing_tables")
    sql = "select type, count(*) as frames, count(attributes) as read from frames group by type"
    readable = printed("query", run.path, sql, "--format", "json")
    frames = {row["type"]: row for row in map(json.loads, readable.splitlines())}
    assert frames["MSG"]["frames"] > 100
    assert frames["MSG"]["read"] == 0


def test_report(run: RunLayout) -> None:
    text = run.report.read_text()
    assert "Private matching" in text
    assert "discarded: operator" in text


def test_crossings_are_unknown_without_captures(tmp_path: Path, printed: Callable[..., str]) -> None:
    chosen = ("--set", "privacy.mode=bloom", "--set", "duration_s=30")
    options = ("--captures", "none", "--engine", "duckdb", "--runs", tmp_path)
    assert "no link was captured" in " ".join(printed("simulate", "ring5", *chosen, *options).split())
    (manifest,) = tmp_path.glob("*/manifest.json")
    run = RunLayout(manifest.parent)
    private = json.loads(run.summary.read_text())["private"]
    assert private["delivered"] > private["kept"] > 0
    assert private["crossings"] is private["unwanted_crossings"] is None
    assert "no link was captured" in run.report.read_text()


def test_the_keys_of_an_experiment_are_checked(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    keys = tmp_path / "ring.keys"
    command = ["check", "ring5", "--set", "privacy.mode=bloom", "--set", f"privacy.key_file={keys}"]
    assert f"privacy.key_file: {keys}: No such file" in refused(*command)
    printed("keys", "new", keys, "--bits", 256, "--hashes", 12)
    kept = printed(*command, "--set", "privacy.kept_hashes=10")
    assert "bloom: sets of 256 bits, 12 for each string, encoding slides" in kept
    said = refused(*command, "--set", "privacy.kept_hashes=13")
    assert f"privacy.kept_hashes: 13; expected at most the hashes of {keys}, 12" in said


def test_keys_that_cannot_be_made_or_read_are_named(tmp_path: Path, refused: Callable[..., str]) -> None:
    keys = tmp_path / "ring.keys"
    assert refused("keys", "new", keys, "--bits", 1).startswith(f"cbcb: {keys}: ")
    keys.write_text("{")
    keys.chmod(0o600)
    assert refused("keys", "show", keys).startswith(f"cbcb: {keys}: no key file: ")


def test_a_run_is_accounted_for_elsewhere_without_its_keys(
    run: RunLayout, printed: Callable[..., str], tmp_path: Path
) -> None:
    archive = tmp_path / "run.tar.gz"
    printed("export", run.path, "--output", archive)
    copied = RunLayout(Path(printed("import", archive, "--runs", tmp_path).strip()))
    assert run.keys.exists() and not copied.keys.exists()
    printed("account", copied.path, "--engine", "duckdb")
    summaries = [json.loads(each.summary.read_text()) for each in (run, copied)]
    assert summaries[0]["private"] == summaries[1]["private"] != {}


def test_an_attack_on_a_run_without_keys_makes_those_of_its_seed_again(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    chosen = ("--set", "privacy.mode=bloom", "--set", "duration_s=60", "--engine", "duckdb")
    printed("simulate", "ring5", "--runs", tmp_path, *chosen)
    (manifest,) = tmp_path.glob("*/manifest.json")
    command = ("attack", manifest.parent, "--json")
    before = printed(*command)
    RunLayout(manifest.parent).keys.unlink()
    assert printed(*command) == before
