"""The stored form of a subscription: the object with encrypted secrets, start offsets, and the sink's grant."""

from __future__ import annotations

import json
from typing import NamedTuple

from bridges.cloudevents.manager.consents import PendingConsent
from bridges.cloudevents.model.strict_json import json_text
from bridges.cloudevents.model.values import Json
from bridges.cloudevents.reading.start_offsets import StartOffsets, dump_start_offsets, load_start_offsets


class Envelope(NamedTuple):
    """A stored document in its parts; `granted`: deliveries per second that the sink allows, None for no limit."""

    start_offsets: StartOffsets
    object: bytes
    granted: float | None = None
    pending_consent: PendingConsent | None = None
    """The consent that the sink has not given yet."""
    edition: int = 1
    """The number of times that its owner has written it; a renewed token or another key does not count."""


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode as JSON; `object` is JSON already."""
    starts = json.dumps(dump_start_offsets(envelope.start_offsets), separators=(",", ":"))
    granted, consent = json.dumps(envelope.granted), json.dumps(envelope.pending_consent)
    head = f'{{"starts":{starts},"granted":{granted},"consent":{consent},"edition":{envelope.edition},"object":'
    return head.encode() + envelope.object + b"}"


def decode_envelope(stored: bytes) -> Envelope:
    """Decode the result of `encode_envelope`; raises ValueError, KeyError or TypeError for anything else."""
    envelope, object = read_envelope(stored)
    return envelope._replace(object=json_text(object))


def read_envelope(stored: bytes) -> tuple[Envelope, Json]:
    """As `decode_envelope`, but the object is the second value, decoded, and missing in the first."""
    read = json.loads(stored)
    granted = None if read["granted"] is None else float(read["granted"])
    consent = None if read["consent"] is None else PendingConsent(str(read["consent"][0]), int(read["consent"][1]))
    envelope = Envelope(load_start_offsets(read["starts"]), b"", granted, consent, int(read["edition"]))
    return envelope, read["object"]
