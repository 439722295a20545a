"""Attacks on a run: the sets of bits in its captures, and what they stand for.

Routers see the captured frames. The experimenter alone knows what a set stands for, from the key and the
workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.inputs import WORKLOAD
from router.predicates import Filter, Message
from router.predicates.encoded import ANY_SUITE, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.encoded.encoder import StringHash
from router.predicates.encoded.encodings import Encoding
from router.predicates.parser import parse_predicate
from router.privacy import Key, KeyRing, read_keys
from router.privacy.member import Opener, OpenError, derived
from router.wire.codec import read_frame
from router.wire.frames import AddressedMessage, Frame, FrameType
from router.wire.intake import FrameIntake
from testbed.evaluation.attacks import OTHER_SEED, Knowledge, Outcome, Seen, Traffic, Truth, knowledge_of
from testbed.evaluation.attacks.attacks import ATTACKS
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.keys import key_ring
from testbed.support.errors import InputError


@dataclass
class Captured:
    """Private content of captures; of several frames of one message or advertisement, one.

    Attributes:
        messages: (source, sequence number) -> time of the first capture of the message, and the message.
        filters: (issuer, filter) in the order of the captures, each once.
        frames: private frames by type, each capture of a frame counted.
    """

    messages: dict[tuple[int, int], tuple[int, BloomMessage]] = field(default_factory=dict)
    filters: dict[tuple[int, BloomFilter], None] = field(default_factory=dict)
    frames: Counter[str] = field(default_factory=Counter)

    def suites(self) -> list[Suite]:
        """The suites of the messages, the most frequent first."""
        suites = Counter(message.suite for _, message in self.messages.values())
        return [suite for suite, _ in suites.most_common()]

    def take(self, frame: Frame, time_ns: int) -> None:
        """Takes a frame captured at a time; those without private content are ignored."""
        body = frame.body.message if isinstance(frame.body, AddressedMessage) else frame.body
        if frame.type is FrameType.XMSG and isinstance(body, BloomMessage):
            name = frame.issuer, frame.seq
            first_ns, message = self.messages.get(name, (time_ns, body))
            self.messages[name] = min(first_ns, time_ns), message
        elif frame.type is FrameType.XRA and isinstance(body, BloomPredicate):
            for filter_ in body.encoded:
                if filter_.suite != ANY_SUITE:
                    self.filters.setdefault((frame.issuer, filter_))
        else:
            return
        self.frames[frame.type.name] += 1


def read_captures(paths: Iterable[Path]) -> Captured:
    """Reads the private frames of capture files of links.

    Raises:
        PcapError: a file is no capture.
    """
    captured = Captured()
    for path in sorted(paths):
        intake = FrameIntake(read_frame)
        for record in PcapReader(path).records():
            whole = intake.take(record.data, record.time_ns / 1e9)
            if whole is not None:
                captured.take(whole[1], record.time_ns)
    return captured


def material(captured: Captured, key: Key, filters: Iterable[Filter]) -> tuple[Seen, Truth, int]:
    """The sets of bits under a key, with their meaning.

    Returns:
        The sets, those of messages in the order of their first captures; their meaning; and the number of
        messages that the key does not open.
    """
    suite, encoding = key.parameters.suite(key.key_id), key.parameters.make_encoding()
    hashed = StringHash(suite, derived(key.secret, b"bloom"))
    opener, unread = Opener(key.secret), 0
    bits: list[int] = []
    strings, attributes = [], []
    for _, _, message in sorted((first, name, each) for name, (first, each) in captured.messages.items()):
        if message.suite != suite:
            continue
        try:
            plain = opener.open(message)
        except OpenError:
            unread += 1
            continue
        bits.append(message.bits)
        strings.append(encoding.message_strings(plain))
        attributes.append(len(plain))
    own = [(issuer, filter_.bits) for issuer, filter_ in captured.filters if filter_.suite == suite]
    meanings = _meanings([each for _, each in own], filters, encoding, hashed)
    seen = Seen(suite, bits, own)
    return seen, Truth(strings, attributes, [meanings.get(each) for _, each in own], hashed.bits_of), unread


def _meanings(
    observed: Sequence[int], filters: Iterable[Filter], encoding: Encoding, hashed: StringHash
) -> Mapping[int, frozenset[bytes]]:
    """S_f of sets of bits: of a set that lost bits, that of the smallest whole set which contains it."""
    whole: dict[int, frozenset[bytes]] = {}
    for filter_ in filters:
        strings = encoding.filter_strings(filter_)
        whole[hashed.set_of(strings)] = strings
    ascending = sorted(whole, key=lambda bits: (bits.bit_count(), bits))
    found = {}
    for bits in set(observed):
        containing = (
            bits if bits in whole else next((each for each in ascending if each & bits == bits), None)
        )
        if containing is not None:
            found[bits] = whole[containing]
    return found


#: Shares of the messages seen after which the attacks are made.
SHARES = (0.1, 0.3, 1.0)


def attack_run(
    run: RunLayout, key_file: Path | None, names: Sequence[str]
) -> tuple[str, list[tuple[str, int, Outcome]]]:
    """Attacks the private frames in the captures of a run.

    The attacker's knowledge is a workload of the same experiment with another seed.

    Args:
        key_file: the key of the run, to count what is right; None: those of the run folder, or of its seed.
        names: of `ATTACKS`.

    Returns:
        How many frames and distinct messages and filters the captures have, as text; and (name of the
        attack, messages seen, result) of each attack.

    Raises:
        KeyFileError: the key file cannot be used.
        InputError: the captures have no private message under its keys, or the workload has no messages.
        RunFolderError: a file of the run folder is malformed.
    """
    ring = _ring(run, key_file)
    captured = read_captures(run.captures_folder.glob("*.pcap"))
    suites = captured.suites()
    key = next((key for key in ring.keys if key.parameters.suite(key.key_id) in suites[:1]), None)
    if key is None:
        seen = f"messages under {', '.join(map(str, suites))}" if suites else "no private message"
        raise InputError(f"{run.path}: {seen} in the captures; expected messages under a key of {ring.keys}")
    predicates = (line["predicate"] for _, line in WORKLOAD.read(run) if "predicate" in line)
    filters = [filter_ for predicate in predicates for filter_ in parse_predicate(predicate)]
    whole, truth, unread = material(captured, key, filters)
    knowledge = _knowledge(run, key.parameters.make_encoding())
    counts = [round(share * len(whole.messages)) for share in SHARES]
    frames = ", ".join(f"{count:,} {name}" for name, count in sorted(captured.frames.items()))
    text = f"{frames} captured: {len(whole.messages):,} messages, {len(whole.filters):,} filters"
    text += f"; the key does not open {unread:,} messages" if unread else ""
    return text, [
        (name, count, ATTACKS[name].after(count, whole, knowledge, truth))
        for name in names
        for count in counts
    ]


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
    drawn = generate(replace(experiment, seed=experiment.seed + OTHER_SEED))
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
