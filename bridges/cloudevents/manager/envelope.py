"""What is stored of a subscription: the object, secrets sealed, and where it began to read."""

from __future__ import annotations

import json
from typing import NamedTuple

from bridges.cloudevents.reading.starts import Starts, dump_starts, load_starts


class Envelope(NamedTuple):
    """A stored document in its parts."""

    starts: Starts
    object: bytes


def seal_envelope(envelope: Envelope) -> bytes:
    """As JSON; `object` is JSON already."""
    starts = json.dumps(dump_starts(envelope.starts), separators=(",", ":"))
    return b'{"starts":%b,"object":%b}' % (starts.encode(), envelope.object)


def open_envelope(stored: bytes) -> Envelope:
    """What `seal_envelope` made; raises ValueError, KeyError or TypeError for anything else."""
    read = json.loads(stored)
    return Envelope(load_starts(read["starts"]), json.dumps(read["object"], ensure_ascii=False).encode())
