"""The keys of a run: of the members of its private network, and of its routers and controller.

Members are the applications of an experiment. Keys made from the seed are as repeatable as all else that is
random in an experiment, and no secret. Keys of a file outlive the run: whatever members use under them comes
from the operating system, and the keys of routers and controller are derived for the run: HKDF binds its
identity into them (docs/adr/0025).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path

from router.privacy import KeyRing, read_keys
from router.privacy.member import Member
from testbed.experiments.config import Experiment
from testbed.experiments.events import APPLICATION, Place
from testbed.support.errors import InputError, reading


def key_ring(experiment: Experiment) -> KeyRing:
    """The keys of all members.

    Raises:
        InputError: `privacy.key_file` cannot be used, or its keys have fewer hashes than members are to keep.
    """
    if experiment.privacy.key_file:
        with reading("privacy.key_file"):
            ring = read_keys(Path(experiment.privacy.key_file))
        hashes = min(key.parameters.hashes for key in ring.keys)
        if (kept := experiment.privacy.kept_hashes) > hashes:
            raise InputError(
                f"privacy.kept_hashes: {kept}; expected at most the hashes of "
                f"{experiment.privacy.key_file}, {hashes}"
            )
        return ring
    return KeyRing.new(experiment.privacy.parameters, random.Random(f"{experiment.seed}/keys").randbytes)


def members_of(experiment: Experiment, applications: Iterable[Place]) -> dict[Place, Member]:
    """The member that each application is.

    No two members have the number of one client: with it they would seal under the same nonces. With keys
    made from the seed, that of the application `workload` is the number of its node.
    """
    ring, hardening = key_ring(experiment), experiment.privacy.hardening
    places = sorted(applications)
    if experiment.privacy.key_file:
        numbers = random.SystemRandom().sample(range(1 << 32), len(places))
        return {
            place: Member(ring, hardening, client=each) for place, each in zip(places, numbers, strict=True)
        }
    others = count(len(experiment.topology.nodes))
    found = {}
    for node, app in places:
        first = app == APPLICATION
        label = f"{node}" if first else f"{node}/{app}"
        source = random.Random(f"{experiment.seed}/{label}/member")
        found[node, app] = Member(ring, hardening, source, client=node if first else next(others))
    return found


def network_keys(experiment: Experiment, identity: str) -> KeyRing:
    """The keys of which routers and controller derive those of their pairs.

    Args:
        identity: of the run (`captures.rundir.inputs.Manifest`).

    Raises:
        InputError: `security.key_file` cannot be used.
    """
    if experiment.security.key_file is None:
        source = random.Random(f"{experiment.seed}/network keys").randbytes
        return KeyRing.new(random_bytes=source)
    from router.privacy.member import derived

    with reading("security.key_file"):
        ring = read_keys(Path(experiment.security.key_file))
    keys = (replace(key, secret=derived(key.secret, f"network {identity}".encode())) for key in ring.keys)
    return replace(ring, keys=tuple(keys))


def write_signing_keys(experiment: Experiment, identity: str, folder: Path) -> None:
    """Writes the signing keys of the controller and of all nodes to a folder that does not exist.

    Raises:
        InputError: `security.signing_keys` cannot be used.
        OSError: the folder cannot be written.
    """
    from router.security.signatures import derive_signing_keys, make_signing_keys

    nodes = len(experiment.topology.nodes)
    if experiment.security.signing_keys is None:
        make_signing_keys(folder, nodes, random.Random(f"{experiment.seed}/signing keys").randbytes)
        return
    with reading("security.signing_keys"):
        derive_signing_keys(Path(experiment.security.signing_keys), folder, nodes, identity)
