"""The journal's rows about single messages: addresses and size, nothing else (pure).

`_rows` makes them in one call for many messages; what it leaves out is made here, by the general form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from json.encoder import encode_basestring
from typing import Final, cast

from gateway.amqp.link.handlers import Transfer
from gateway.amqp.message.response_support import annotated
from gateway.amqp.message.sections import property_field, walk
from gateway.errors import AmqpError
from gateway.journal import _rows
from gateway.observability.redaction import redact
from gateway.response.fields import REPLY_TO, TO, address_text

_WORDS: Final = {False: "false", True: "true"}
_FLAGS: Final = {
    (settled, found): f',"settled":{_WORDS[settled]},"annotated":{_WORDS[found]}'
    for settled, found in product(_WORDS, _WORDS)
}
"""The members about a message that came settled or not, with response annotations or not."""


def message_rows(messages: Sequence[Transfer], begun: str, now: int, first: int) -> list[bytes]:
    """The values of rows about messages at the time `now`, with numbers from `first` on.

    `begun`: the beginning of all rows of this kind of link (`Heading.begun`).
    """
    start, times = f'{begun},"seq":', f',"from_ms":{now},"to_ms":{now},"size":'
    made = _rows.message_rows(messages, start.encode("utf-8", "replace"), times.encode(), first)
    for at in [at for at, row in enumerate(made) if row is None]:
        made[at] = general_row(start, first + at, times, messages[at])
    return cast("list[bytes]", made)


def general_row(start: str, seq: int, times: str, message: Transfer) -> bytes:
    """The value of a row about any message."""
    _, data, settled = message
    flags = _FLAGS[settled, annotated(data)]
    return f"{start}{seq}{times}{len(data)}{flags}{_addresses(data)}}}".encode("utf-8", "replace")


def _addresses(data: bytes) -> str:
    """The `to` and reply-to of a message as members of a JSON object, or why they cannot be read."""
    found = ""
    try:
        layout = walk(data)
        if layout.properties == layout.app:
            return found
        for name, index in (("message_to", TO), ("message_reply_to", REPLY_TO)):
            raw = property_field(data, layout, index)
            if raw and (text := redact(address_text(raw, name))) is not None:
                found += f',"{name}":{encode_basestring(text)}'
    except AmqpError as error:
        found += f',"malformed":{encode_basestring(error.condition)}'
    return found
