"""The members of an experiment's private network: its applications, and their keys.

Keys made from the seed are as repeatable as all else that is random in an experiment, and no secret. Keys of
a file outlive the run: whatever members use under them comes from the operating system.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from router.privacy.application import PrivateApplication
from router.privacy.keys import KeyFileError, KeyRing, read_keys
from router.privacy.member import Member
from router.records.applications import ApplicationRecords
from testbed.experiments.config.model import Experiment
from testbed.experiments.events.applications import APPLICATION, Place
from testbed.support.errors import InputError


def key_ring(experiment: Experiment) -> KeyRing:
    """The keys of all members.

    Raises:
        InputError: `privacy.key_file` cannot be used, or its keys have fewer hashes than members are to keep.
    """
    if experiment.privacy.key_file:
        try:
            ring = read_keys(Path(experiment.privacy.key_file))
        except KeyFileError as error:
            raise InputError(f"privacy.key_file: {error}") from error
        hashes = min(key.parameters.hashes for key in ring.keys)
        if (kept := experiment.privacy.kept_hashes) > hashes:
            raise InputError(
                f"privacy.kept_hashes: {kept}; expected at most the hashes of "
                f"{experiment.privacy.key_file}, {hashes}"
            )
        return ring
    return KeyRing.new(experiment.privacy.parameters, random.Random(f"{experiment.seed}/keys").randbytes)


def private_applications(
    experiment: Experiment, applications: Iterable[Place], records: ApplicationRecords
) -> dict[Place, PrivateApplication]:
    """The private side of each application; all write the same records."""
    members = members_of(experiment, applications)
    return {place: PrivateApplication(member, records) for place, member in members.items()}


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
