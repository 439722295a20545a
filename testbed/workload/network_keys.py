"""The network keys of an experiment: those of its key file, or a key made from the seed."""

from __future__ import annotations

import random
from pathlib import Path

from router.privacy.keys import KeyFileError, KeyRing, read_keys
from testbed.config.model import Experiment
from testbed.errors import InputError


def network_keys(experiment: Experiment) -> KeyRing:
    """The keys of which routers and controller derive those of their pairs.

    A key made from the seed is as repeatable as all else that is random in an experiment, and no secret.

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
