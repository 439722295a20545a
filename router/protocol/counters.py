"""Counters of the protocol core."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Drop(StrEnum):
    """Why a whole frame, or a message of a local application, was dropped."""

    NOT_FROM_CONTROLLER = "not_from_controller"
    NOT_FROM_ROUTER = "not_from_router"
    NOT_ADDRESSED = "not_addressed"
    MALFORMED = "malformed"
    #: A frame of a type that neither the routing scheme nor the service of this router takes.
    NOT_HANDLED = "not_handled"
    #: A TABLE or COMMIT for another start of this router: of another run, or before a restart.
    OTHER_RUN = "other_run"
    BAD_TABLE = "bad_table"
    #: A TABLE of an epoch that is far ahead of the newest that the router knows.
    EPOCH_AHEAD = "epoch_ahead"
    UNKNOWN_EPOCH = "unknown_epoch"
    UNKNOWN_NEIGHBOUR = "unknown_neighbour"
    OWN_FRAME = "own_frame"
    NO_TREE = "no_tree"
    REVERSE_PATH = "reverse_path"
    HOP_LIMIT = "hop_limit"
    RA_COVERED = "ra_covered"
    #: An identified RA whose number is not above the last one of its issuer: a duplicate, or overtaken.
    RA_OLD = "ra_old"
    #: An RA that is not identified, where the routing scheme needs identified ones.
    RA_UNIDENTIFIED = "ra_unidentified"
    #: A destination of a message to which no child of this router leads; the message may have others.
    DESTINATION = "destination"
    #: An SR whose request number is not above the last one of its issuer: a duplicate, or overtaken.
    SR_OLD = "sr_old"
    #: A UR of a request that is over: answered, timed out or replaced by a newer one.
    UR_LATE = "ur_late"
    #: A UR that this router asked of no neighbour, for itself or for another.
    UR_UNEXPECTED = "ur_unexpected"
    #: A part of a UR about a node that is not behind the neighbour that sent it; the UR may have others.
    UR_CLASS = "ur_class"
    #: A SUB that came before, or of a round that a newer one has replaced; or one that comes back from a
    #: child although its round is over, or a newer SUB has replaced it.
    SUB_OLD = "sub_old"
    #: A SUB beyond what this router keeps of subscriptions, or whose lifetime is over.
    SUB_REFUSED = "sub_refused"
    #: A PUB that came before.
    PUB_DUPLICATE = "pub_duplicate"
    #: A PUB or FLUSH of a publication of this router that was never uploaded here.
    PUBLICATION_FORGED = "publication_forged"
    #: A home of a PUB to which this router has sent the publication since the home's last SUB.
    HOME_SERVED = "home_served"
    #: An OVERLOAD of a subscription that this router does not know, or that has a newer round.
    OVERLOAD_LATE = "overload_late"
    #: A PUB that a paced interface had no room for.
    QUEUE_FULL = "queue_full"
    #: A FLUSH that answers nothing, or contradicts itself.
    FLUSH_UNEXPECTED = "flush_unexpected"
    #: A message that its content does not pass on (`Content.refusal`), or a large one (`bounds`),
    #: of an application or a neighbour.
    MESSAGE_REFUSED = "message_refused"
    #: A message that was delivered to the applications before; its neighbours may get it all the same.
    MESSAGE_DUPLICATE = "message_duplicate"
    HELD_QUEUE_FULL = "held_queue_full"
    #: A frame without a signature, where issuers sign.
    UNSIGNED = "unsigned"
    #: A frame whose signature is not that of the node that it names.
    BAD_SIGNATURE = "bad_signature"
    #: A signed frame of an issuer that came before.
    ISSUER_REPLAYED = "issuer_replayed"
    #: A RECEIPT of a frame that was confirmed before, or given up.
    RECEIPT_LATE = "receipt_late"


@dataclass(slots=True)
class Counters:
    """Counts of the core's actions since it was made.

    A message that came in from the network counts in `messages_received` and then in
    `messages_forwarded`, in `messages_delivered` (p0 selects it), in both, or in
    `messages_unwanted`: neither forwarded nor delivered, the paper's false positive (section 4.2).
    `messages_sent` are those of local applications; those of them that p0 selects count in
    `messages_delivered` too, and those that went nowhere in `messages_unmatched`.

    `srs_issued` and `srs_forwarded` count frames handed to the broadcast layer, whatever their fan-out;
    `srs_saved` counts interfaces through which an SR need not go on because the table had the answer.
    `urs_applied` are URs to SRs issued here, `urs_reused` those to others' that replaced an entry of this
    router's table; `urs_missed` are interfaces from which none came in time.

    `predicates_widened` counts RAs and URs whose predicate exceeded a limit and was widened, and changes of a
    p0 that the predicates of the applications exceed together.

    With `reliable_control`, `control_repeated` counts RAs, SRs and URs that were sent again, whatever their
    fan-out, `control_copies` those that came again, and `control_unconfirmed` interfaces on which a frame was
    given up in its epoch, or for which there was no room.

    The others are those of the attention-limited service. `publications_delivered` counts a publication once
    for each subscription; `publications_overload` those that came for a local subscription that was satisfied
    before, or over. `subs_issued`, `pubs_issued` and `overloads_issued` count frames of this router, whatever
    their fan-out, `subs_forwarded` and `pubs_forwarded` those that went on. `custody_lost` counts pending
    publications of which no neighbour is known to have taken custody when the cache replaced them.
    """

    messages_sent: int = 0
    messages_unmatched: int = 0
    messages_received: int = 0
    messages_forwarded: int = 0
    messages_delivered: int = 0
    messages_unwanted: int = 0
    ras_issued: int = 0
    ras_received: int = 0
    ras_forwarded: int = 0
    srs_issued: int = 0
    srs_received: int = 0
    srs_forwarded: int = 0
    srs_saved: int = 0
    urs_sent: int = 0
    urs_sent_partial: int = 0
    urs_received: int = 0
    urs_applied: int = 0
    urs_reused: int = 0
    urs_missed: int = 0
    predicates_widened: int = 0
    control_repeated: int = 0
    control_copies: int = 0
    control_unconfirmed: int = 0
    rounds_begun: int = 0
    rounds_satisfied: int = 0
    publications_uploaded: int = 0
    publications_delivered: int = 0
    publications_overload: int = 0
    publications_evicted: int = 0
    subs_issued: int = 0
    subs_received: int = 0
    subs_forwarded: int = 0
    pubs_issued: int = 0
    pubs_received: int = 0
    pubs_forwarded: int = 0
    overloads_issued: int = 0
    overloads_received: int = 0
    flushes_sent: int = 0
    flushes_received: int = 0
    custody_lost: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    #: Those of `dropped` that were not authentic, by the neighbour that they came from and by reason.
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def drop(self, reason: Drop) -> None:
        self.dropped[reason.value] += 1

    def as_dict(self) -> dict[str, int]:
        """Every counter of one number, by name."""
        return {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in {"dropped", "refused"}
        }
