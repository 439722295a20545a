"""Attacks on a run: its captures, its workload and its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from captures.rundir.inputs import read_workload
from captures.rundir.layout import RunLayout
from router.predicates.encoded.encodings import Encoding
from router.predicates.model import Filter, Message
from router.predicates.parser import parse_predicate
from router.privacy.keys import KeyFileError, KeyRing, read_keys
from testbed.evaluation.attacks.captured import material, read_captures
from testbed.evaluation.attacks.model import ATTACKS, Knowledge, Outcome, Traffic, knowledge_of
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.keys import key_ring
from testbed.support.errors import InputError

#: Shares of the messages seen after which the attacks are made.
SHARES = (0.1, 0.3, 1.0)
#: The seed of the sample of the public distribution is that of the run and this number.
_OTHER_SEED = 1_000_003


@dataclass(frozen=True)
class Attacked:
    """The result of attacks on a run.

    Attributes:
        frames: private frames by type: those of all captures.
        messages, filters: distinct messages, and distinct filters of an issuer.
        unread: messages that the key does not open.
        outcomes: (name of the attack, messages seen, result).
    """

    frames: Counter[str]
    messages: int
    filters: int
    unread: int
    outcomes: Sequence[tuple[str, int, Outcome]]


def attack_run(run: RunLayout, key_file: Path | None, names: Sequence[str]) -> Attacked:
    """Attacks the private frames in the captures of a run.

    The attacker's knowledge is a workload of the same experiment with another seed.

    Args:
        run: the run folder.
        key_file: the key of the run, to count what is right; None: those of the run folder, or of its seed.
        names: of `ATTACKS`.

    Raises:
        InputError: the key file cannot be used, the captures have no private message under its keys, or the
            workload has no messages.
        RunFolderError: a file of the run folder is malformed.
    """
    try:
        ring = _ring(run, key_file)
    except KeyFileError as error:
        raise InputError(str(error)) from error
    captured = read_captures(run.captures_folder.glob("*.pcap"))
    suites = captured.suites()
    key = next((key for key in ring.keys if key.parameters.suite(key.key_id) in suites[:1]), None)
    if key is None:
        seen = f"messages under {', '.join(map(str, suites))}" if suites else "no private message"
        raise InputError(f"{run.path}: {seen} in the captures; expected messages under a key of {ring.keys}")
    filters = [
        filter_
        for _, line in read_workload(run)
        if "predicate" in line
        for filter_ in parse_predicate(line["predicate"])
    ]
    whole, truth, unread = material(captured, key, filters)
    knowledge = _knowledge(run, key.parameters.make_encoding())
    outcomes = []
    for name in names:
        for share in SHARES:
            count = round(share * len(whole.messages))
            part = replace(truth, messages=truth.messages[:count], attributes=truth.attributes[:count])
            seen_part = replace(whole, messages=whole.messages[:count])
            outcomes.append((name, count, ATTACKS[name]().run(seen_part, knowledge, part)))
    return Attacked(captured.frames, len(whole.messages), len(whole.filters), unread, outcomes)


def _ring(run: RunLayout, key_file: Path | None) -> KeyRing:
    """The keys of a run: an imported one has none, and those of a seed are made again."""
    if key_file is None and not run.keys.exists():
        experiment = load_experiment(run.experiment)
        if experiment.privacy.on and experiment.privacy.key_file is None:
            return key_ring(experiment)
    return read_keys(key_file or run.keys)


def _knowledge(run: RunLayout, encoding: Encoding) -> Knowledge:
    """The public distribution: a workload of the same experiment with another seed.

    Raises:
        InputError: the workload has no messages.
    """
    experiment = load_experiment(run.experiment)
    drawn = generate(replace(experiment, seed=experiment.seed + _OTHER_SEED))
    messages: list[Message] = []
    filters: list[tuple[int, Filter]] = []
    for item in drawn.items:
        if item.attributes is not None:
            messages.append(Message(item.attributes))
        elif item.predicate is not None:
            filters += [(item.node, filter_) for filter_ in parse_predicate(item.predicate)]
    if not messages:
        raise InputError(
            f"{run.experiment}: its workload has no messages; expected some, from which an attacker knows "
            "the distribution of names and values"
        )
    return knowledge_of(Traffic(messages, filters), encoding)
