"""The keys of routers and controller of a run: derived from those of its files, or made from the seed.

Derived keys are those of one run: HKDF binds its identity into them (docs/adr/0025). Keys made from the seed
are as repeatable as all else that is random in an experiment, and no secrets.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from router.privacy.keys import KeyFileError, KeyRing, read_keys
from testbed.experiments.config.model import Experiment
from testbed.support.errors import InputError


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
    from router.privacy.sealing import derived

    try:
        ring = read_keys(Path(experiment.security.key_file))
    except KeyFileError as error:
        raise InputError(f"security.key_file: {error}") from error
    keys = (replace(key, secret=derived(key.secret, f"network {identity}")) for key in ring.keys)
    return replace(ring, keys=tuple(keys))


def write_signing_keys(experiment: Experiment, identity: str, folder: Path) -> None:
    """Writes the signing keys of the controller and of all nodes to a folder that does not exist.

    Args:
        identity: as `network_keys`.

    Raises:
        InputError: `security.signing_keys` cannot be used.
        OSError: the folder cannot be written.
    """
    from router.security.signatures import derive_signing_keys, make_signing_keys

    nodes = len(experiment.topology.nodes)
    if experiment.security.signing_keys is None:
        make_signing_keys(folder, nodes, random.Random(f"{experiment.seed}/signing keys").randbytes)
        return
    try:
        derive_signing_keys(Path(experiment.security.signing_keys), folder, nodes, identity)
    except KeyFileError as error:
        raise InputError(f"security.signing_keys: {error}") from error
