"""The members of an experiment's private network: its applications, and their keys.

Keys made from the seed are as repeatable as all else that is random in an experiment, and no secret.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from router.privacy.application import PrivateApplication
from router.privacy.keys import KeyFileError, KeyRing, read_keys
from router.privacy.member import Member
from router.records.applications import ApplicationRecords
from testbed.config.model import Experiment
from testbed.errors import InputError


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
    experiment: Experiment, nodes: Iterable[int], records: ApplicationRecords
) -> dict[int, PrivateApplication]:
    """The private side of the application on each node; all write the same records."""
    return {
        node: PrivateApplication(member, records) for node, member in members_of(experiment, nodes).items()
    }


def members_of(experiment: Experiment, nodes: Iterable[int]) -> dict[int, Member]:
    """The member on each node; the number of its client is that of the node."""
    ring, hardening = key_ring(experiment), experiment.privacy.hardening
    return {
        node: Member(ring, hardening, random.Random(f"{experiment.seed}/{node}/member"), client=node)
        for node in nodes
    }
