"""The keys of routers and controller of an experiment: those of its files, or keys made from the seed.

Keys made from the seed are as repeatable as all else that is random in an experiment, and no secrets.
"""

from __future__ import annotations

import random
from pathlib import Path

from router.privacy.keys import KeyFileError, KeyRing, read_keys
from testbed.config.model import Experiment
from testbed.errors import InputError


def network_keys(experiment: Experiment) -> KeyRing:
    """The keys of which routers and controller derive those of their pairs.

    Raises:
        InputError: `security.key_file` cannot be used.
    """
    if experiment.security.key_file is None:
        source = random.Random(f"{experiment.seed}/network keys").randbytes
        return KeyRing.new(random_bytes=source)
    try:
        return read_keys(Path(experiment.security.key_file))
    except KeyFileError as error:
        raise InputError(f"security.key_file: {error}") from error


def write_signing_keys(experiment: Experiment, folder: Path) -> None:
    """Writes the signing keys of the controller and of all nodes to a folder that does not exist.

    Raises:
        InputError: `security.signing_keys` cannot be used.
        OSError: the folder cannot be written.
    """
    from router.security.signing_keys import copy_signing_keys, make_signing_keys

    nodes = len(experiment.topology.nodes)
    if experiment.security.signing_keys is None:
        make_signing_keys(folder, nodes, random.Random(f"{experiment.seed}/signing keys").randbytes)
        return
    try:
        copy_signing_keys(Path(experiment.security.signing_keys), folder, nodes)
    except KeyFileError as error:
        raise InputError(f"security.signing_keys: {error}") from error
