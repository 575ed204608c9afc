"""The recorded messages (`recorded.json`, `record.py`), as many and as large as a case asks for.

A name is `client/message` such as `jms/text`; a client alone means all its messages, `mix` those of all clients, one
after the other. A message body is made as large as the case asks, in the encoding of the client, unless it is a map.
"""

from __future__ import annotations

import json
import random
import struct
from functools import lru_cache
from pathlib import Path
from typing import Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.decoder import skip
from gateway.amqp.message.sections import PROPERTIES, opened, walk

RECORDED: Final = Path(__file__).parent / "recorded.json"
SYNTHETIC: Final = "synthetic"
"""One data section and nothing else, as no client library sends it but many programs of their own do."""
MIX: Final = "mix"
LARGE: Final = "-1k"
"""The end of the names of messages with 1,000 bytes: they show that `resized` makes a body as the client does."""
USUAL: Final = (SYNTHETIC, MIX)
_SMALL, _WIDE = 256, 0x10
_VARIABLE: Final = (0xA0, 0xA1)
_REPLY_TO: Final = 4
_NULL: Final = b"\x40"


@lru_cache(maxsize=1)
def recorded() -> dict[str, bytes]:
    """All messages by name."""
    return {name: bytes.fromhex(text) for name, text in json.loads(RECORDED.read_text()).items()}


def names() -> list[str]:
    """The names of the shapes."""
    return [name for name in recorded() if not name.endswith(LARGE)]


def chosen(choice: str) -> list[str]:
    """The shapes that a name on the command line means; raises KeyError if there are none."""
    if choice == MIX:
        mixed = names()
        random.Random(19).shuffle(mixed)
        return mixed
    found = [name for name in names() if choice in (name, name.partition("/")[0])]
    if not found:
        raise KeyError(f"no shape {choice!r}; there are {', '.join([*USUAL, *names()])}")
    return found


def messages(choice: str, size: int) -> list[bytes]:
    """The messages of a choice, with bodies of this many bytes."""
    return [resized(recorded()[name], size) for name in chosen(choice)]


def resized(message: bytes, size: int) -> bytes:
    """The message with another size of its body, if that is a string or binary; it is the last section."""
    layout = walk(message)
    at = layout.body + 3
    code = message[at] & ~_WIDE
    if code not in _VARIABLE:
        return message
    head = bytes((code, size)) if size < _SMALL else struct.pack(">BI", code + _WIDE, size)
    return message[:at] + head + b"x" * size


def requests(choice: str, size: int, reply_to: str, count: int) -> list[bytes]:
    """At least `count` requests with ids of their own: the messages of a choice with a `reply_to`, in turns."""
    made = [split_request(message, reply_to) for message in messages(choice, size)]
    return [head + b"%016x" % number + tail for number in range(-(-count // len(made))) for head, tail in made]


def split_request(message: bytes, reply_to: str) -> tuple[bytes, bytes]:
    """What is before and after the 16 characters that number a request in its message-id, a string as JMS has it."""
    layout = walk(message)
    fields = _fields(message, layout.properties) if layout.properties < layout.app else []
    fields += [_NULL] * (_REPLY_TO + 1 - len(fields))
    wide = layout.properties < layout.app and message[layout.properties + 3] == 0xD0
    mark = "#" * 16
    fields[0], fields[_REPLY_TO] = encode(mark), encode(reply_to)
    body = b"".join(fields)
    if wide or len(body) > 254:
        packed = struct.pack(">BII", 0xD0, len(body) + 4, len(fields)) + body
    else:
        packed = bytes((0xC0, len(body) + 1, len(fields))) + body
    whole = message[: layout.properties] + bytes((0, 0x53, PROPERTIES)) + packed + message[layout.app :]
    head, _, tail = whole.partition(mark.encode())
    return head, tail


def _fields(message: bytes, start: int) -> list[bytes]:
    at, _, count = opened(message, start)
    fields = []
    for _ in range(count):
        end = skip(message, at)
        fields.append(message[at:end])
        at = end
    return fields
