"""The folder of signing keys: who may read what, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from router.predicates import EVERYTHING, NOTHING
from router.privacy import KeyFileError, KeyRing, write_keys
from router.privacy.member import derived
from router.security.guard import Guard, Refusal, make_guard
from router.security.signatures import (
    PublicKeys,
    derive_signing_keys,
    make_signing_keys,
    public_key,
    read_public_keys,
    read_signer,
)
from router.wire.frames import COUNTER_BITS, Commit, Frame, FrameType, SenderRequest
from router.wire.header import CONTROLLER, node_address
from router.wire.intake import RefusedError
from testbed.cli.main import main
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload import Workload
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from tests.support.guarded import opened, sealed
from tests.support.promises import hold
from tests.support.whole_frames import decode


def test_each_owner_signs_and_all_verify(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    make_signing_keys(folder, 3)
    keys = PublicKeys(read_public_keys(folder))
    frames = {node: Frame(FrameType.SR, node, 1, 1, 9, SenderRequest(5)) for node in range(3)}
    frames[CONTROLLER] = Frame(FrameType.COMMIT, 2, 1, 1, 1, Commit(1))
    for owner, frame in frames.items():
        signed = read_signer(folder, owner).signed(frame)
        stands = [other for other in (*frames, 3) if keys.stands(signed, other)]
        assert stands == [owner]
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.name == "public.keys" or path.stat().st_mode & 0o777 == 0o600


def test_a_router_signs_in_its_own_name_alone(tmp_path: Path) -> None:
    make_signing_keys(tmp_path / "keys", 2)
    signer = read_signer(tmp_path / "keys", 1)
    other = Frame(FrameType.SR, 0, 1, 1, 9, SenderRequest(5))
    commit = Frame(FrameType.COMMIT, 1, 1, 1, 1, Commit(1))
    assert signer.signed(other) is other
    assert signer.signed(commit) is commit
    # The UR is its own word, whoever issued the SR.
    assert signer.signed(Frame(FrameType.UR, 0, 1, 1, 1, NOTHING)).signature


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_signing_keys(tmp_path / "keys", 1)
    (tmp_path / "keys" / "0.key").chmod(0o640)
    with pytest.raises(KeyFileError, match="lets others"):
        read_signer(tmp_path / "keys", 0)


@pytest.mark.parametrize("content", [b"", b"zz", b"00" * 31, b"\xff"])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    make_signing_keys(tmp_path / "keys", 1)
    for name in ("0.key", "public.keys"):
        (tmp_path / "keys" / name).write_bytes(content)
    with pytest.raises(KeyFileError, match=r"0\.key: no key"):
        read_signer(tmp_path / "keys", 0)
    if content:
        with pytest.raises(KeyFileError, match=r"public\.keys: no key"):
            read_public_keys(tmp_path / "keys")
    with pytest.raises(KeyFileError, match=r"0\.key"):
        derive_signing_keys(tmp_path / "keys", tmp_path / "copy", 1, "run")


def test_a_run_has_keys_of_its_own_for_the_nodes_that_there_are(tmp_path: Path) -> None:
    source, copy = tmp_path / "keys", tmp_path / "copy"
    make_signing_keys(source, 5)
    derive_signing_keys(source, copy, 2, "run")
    assert sorted(path.name for path in copy.iterdir()) == ["0.key", "1.key", "controller.key", "public.keys"]
    key = derived(bytes.fromhex((source / "1.key").read_text()), b"signing run")
    assert bytes.fromhex((copy / "1.key").read_text()) == key
    assert read_public_keys(copy)[2 * 32 :] == public_key(key)
    with pytest.raises(KeyFileError, match=r"5\.key"):
        derive_signing_keys(source, tmp_path / "more", 6, "run")
    (source / "public.keys").write_text((copy / "public.keys").read_text()[::-1].strip() + "\n")
    with pytest.raises(KeyFileError, match=r"public\.keys"):
        derive_signing_keys(source, tmp_path / "again", 2, "run")


def test_the_command_makes_a_folder_once(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    folder = tmp_path / "keys"
    shown = printed("keys", "issuers", folder, "--nodes", 2)
    assert read_signer(folder, 1)
    assert len(read_public_keys(folder)) == 3 * 32
    assert not any(path.read_text().strip() in shown for path in folder.glob("*.key"))
    refused("keys", "issuers", folder, "--nodes", 2)
    with pytest.raises(SystemExit, match="2"):
        main(["keys", "issuers", str(tmp_path / "none"), "--nodes", "0"])


# Two runs under one file of network keys and one folder of signing keys take no frame of each other.


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
    assert "identity" not in MANIFEST.read(run)


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
