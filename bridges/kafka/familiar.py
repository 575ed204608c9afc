"""Records of other applications with short texts as headers, which nearly all have: the names decide, once for all.

Records of a topic have the same names. What of the message follows from them is kept: whether one of them means more
than itself, and how the application properties are put together. What is unusual in any way is left to `incoming`,
which says the same, byte by byte (`tests/property/test_kafka_encoding.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from bridges.kafka.bare import BARE, Header
from bridges.kafka.cloudevents import VERSION
from bridges.kafka.readable import CONTENT_TYPE, RESERVED
from gateway.amqp.codec import encode, encode_items
from gateway.amqp.sections import APPLICATION_PROPERTIES

_MEANING: Final = (CONTENT_TYPE, VERSION)
_LONG: Final = 1024
"""Characters of all names: what is kept of them has a bound, whoever writes to a topic."""
_SECTION: Final = bytes((0, 0x53, APPLICATION_PROPERTIES))


def texts(headers: list[Header]) -> bytes | None:
    """The application properties that show these headers; None where they are not of this kind.

    None of them is the gateway's own then, and no name is there twice.
    """
    if headers[-1][0] == BARE:  # as the gateway writes them
        return None
    names, contents = zip(*headers, strict=True)
    if len("".join(names)) > _LONG or (form := _form(names)) is None:
        return None
    try:
        sizes, text = bytes(map(len, contents)), b"".join(contents)
    except (TypeError, ValueError):  # a null, or more than short
        return None
    if not text.isascii():
        return None
    count = 2 * len(sizes)
    items: list[Any] = [None] * count
    items[::2], items[1::2] = sizes, contents
    return _SECTION + encode_items(count, form % tuple(items))


@lru_cache(maxsize=256)
def _form(names: tuple[str, ...]) -> bytes | None:
    """A format of the size and the text of each; None where a name means more than itself, or is there twice."""
    if len(set(names)) < len(names) or any(name.startswith(RESERVED) or name in _MEANING for name in names):
        return None
    return b"".join(encode(name).replace(b"%", b"%%") + b"\xa1%c%b" for name in names)
