"""Two runs under one file of network keys and one folder of signing keys take no frame of each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.inputs import read_manifest
from router.predicates import EVERYTHING
from router.privacy import KeyRing, write_keys
from router.security.guard import Guard, Refusal, make_guard
from router.security.signatures import PublicKeys, make_signing_keys, read_public_keys
from router.wire.frames import COUNTER_BITS, Frame, FrameType
from router.wire.header import node_address
from router.wire.intake import RefusedError
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload import Workload
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from tests.support.guarded import opened, sealed
from tests.support.promises import hold
from tests.support.whole_frames import decode

EARLIER, LATER = 7, 9
RECEIVER = node_address(1)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunLayout]:
    write_keys(tmp_path / "network.keys", KeyRing.new())
    make_signing_keys(tmp_path / "signing-keys", 2)
    path = tmp_path / "experiment.toml"
    path.write_text(
        'duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 2\n'
        '[security]\nmode = "signed"\nkey_file = "network.keys"\nsigning_keys = "signing-keys"\n'
    )
    made = [RunLayout(new_run_folder(tmp_path, name)) for name in ("first", "second")]
    for run in made:
        write_inputs(run.path, load_experiment(path), Workload((), (), ()), "user")
    return made


def test_a_run_without_files_of_keys_is_repeated_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text('duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 2\n')
    run = RunLayout(new_run_folder(tmp_path, "seeded"))
    write_inputs(run.path, load_experiment(tmp_path / "experiment.toml"), Workload((), (), ()), "user")
    assert "identity" not in read_manifest(run)


def _guard(run: RunLayout, node: int, incarnation: int) -> Guard:
    return make_guard(node_address(node), run.network_keys, incarnation, None, run.signing_keys)


def _frame(run: RunLayout, incarnation: int) -> bytes:
    """An RA of node 0 on the link to node 1."""
    ra = Frame(FrameType.RA, 0, incarnation << COUNTER_BITS | 1, 1, 9, EVERYTHING)
    (data,) = sealed(_guard(run, 0, incarnation), RECEIVER, node_address(0), ra, [RECEIVER])
    return data


@pytest.mark.attack("frame of another run")
@pytest.mark.parametrize(
    "incarnation", [EARLIER, LATER], ids=["at the same time", "before a clock was set back"]
)
def test_a_frame_of_another_run_is_refused_at_the_hop(runs: list[RunLayout], incarnation: int) -> None:
    first, second = runs
    data = _frame(first, incarnation)
    with pytest.raises(RefusedError, match=Refusal.BAD_TAG):
        opened(_guard(second, 1, EARLIER), data)
    assert opened(_guard(first, 1, EARLIER), data)
    for mode in ("mac", "signed"):
        hold("frame of another run", "outsider", mode, False, [Refusal.BAD_TAG])


@pytest.mark.attack("signature of another run")
def test_a_signature_of_another_run_does_not_stand(runs: list[RunLayout]) -> None:
    frame = decode(_frame(runs[0], LATER)[14:])
    stands = [PublicKeys(read_public_keys(run.signing_keys)).stands(frame, 0) for run in runs]
    assert stands == [True, False]
    hold("signature of another run", "insider", "signed", stands[1], ["bad_signature"])
