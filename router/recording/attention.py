"""The events and actions of the attention-limited service in recordings."""

from __future__ import annotations

import json

from router.predicates.model import Message
from router.predicates.printer import format_message, format_predicate, predicate_from_json
from router.protocol.events import ServiceAction
from router.protocol.services.attention.events import (
    DeliverPublication,
    IndexChanged,
    Refresh,
    Register,
    Registered,
    RoundEnded,
    Unregister,
    Unregistered,
    Upload,
    Uploaded,
)
from router.recording.actions import ActionFormat, register_action
from router.recording.contents import predicate_json
from router.recording.events import EventFormat, register_event
from router.records.json_file import to_json


def register() -> None:
    """Adds the formats."""
    register_event(
        Register,
        EventFormat[Register](
            32,
            lambda event, _wire: (
                b"[%d,%b,%b"
                % (
                    event.app,
                    predicate_json(event.predicate),
                    to_json([event.max, event.lifetime_s, event.freshness_s, event.refreshed])[1:],
                )
            ),
            _register,
            lambda event: (
                f"application {event.app}: register at most {event.max} in {event.lifetime_s:g} s, "
                f"no older than {event.freshness_s:g} s: {format_predicate(event.predicate)}"
            ),
        ),
    )
    register_event(
        Refresh,
        EventFormat[Refresh](
            33,
            lambda event, _wire: to_json([event.app, event.subscription]),
            lambda data: Refresh(*json.loads(data)),
            lambda event: f"application {event.app}: refresh {event.subscription}",
        ),
    )
    register_event(
        Unregister,
        EventFormat[Unregister](
            34,
            lambda event, _wire: to_json([event.app, event.subscription]),
            lambda data: Unregister(*json.loads(data)),
            lambda event: f"application {event.app}: unregister {event.subscription}",
        ),
    )
    register_event(
        Upload,
        EventFormat[Upload](
            35,
            lambda event, _wire: to_json([event.app, event.message]),
            _upload,
            lambda event: f"application {event.app}: publish {format_message(event.message)}",
        ),
    )
    for code, action_type in enumerate(
        (Registered, Unregistered, Uploaded, DeliverPublication, RoundEnded, IndexChanged), 32
    ):
        register_action(action_type, ActionFormat(code, _encoded, _described))


def _register(data: bytes) -> Register:
    app, predicate, *others = json.loads(data)
    return Register(app, predicate_from_json(predicate), *others)


def _upload(data: bytes) -> Upload:
    app, attributes = json.loads(data)
    return Upload(app, Message(attributes))


def _encoded(action: ServiceAction) -> bytes:
    """An action as its application and its record."""
    return to_json([action.application, action.record()])


def _described(data: bytes) -> str:
    app, record = json.loads(data)
    fields = " ".join(f"{name}={value}" for name, value in record.items() if name != "event")
    return f"{record['event']}{'' if app is None else f' for application {app}'}: {fields}"
