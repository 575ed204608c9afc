"""Settings of NATS sinks (CE 3.2.2.5). Pure."""

from __future__ import annotations

import re
from typing import Final

from bridges.cloudevents.model.members import InvalidMember, Members, one_of
from bridges.cloudevents.model.values import Json, NatsSettings

_SUBJECT: Final = re.compile(r"(?!\$)[^\s.*>\x00-\x1f\x7f-\x9f]+(?:\.[^\s.*>\x00-\x1f\x7f-\x9f]+)*")


def nats_settings(members: Members) -> NatsSettings:
    """Parse the settings."""
    return NatsSettings(
        subject=members.require("subject", _subject, ""),
        jetstream=members.take("x-ack", one_of("jetstream"), None) is not None,
        mode=members.take("x-mode", one_of("binary", "structured"), "binary"),
    )


def _subject(value: Json) -> str:
    if isinstance(value, str) and len(value) <= 1024 and _SUBJECT.fullmatch(value):
        return value
    raise InvalidMember("a subject: tokens between dots, without wildcards and spaces, not one that begins with $")
