"""Names of headers that mean no more than themselves, encoded: records of a topic have the same ones.

They decide once for all of them how records of other applications are shown; `_messages.h` puts the contents between
the names. Where it is told that they are no such names, `incoming` says what the record is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bridges.kafka.records.cloudevents import VERSION
from bridges.kafka.records.headers import CONTENT_TYPE, RESERVED
from gateway.amqp.codec.codec import encode

_MEANING: Final = (CONTENT_TYPE, VERSION)
_LONG: Final = 1024
"""Characters of all names: what is kept of them has a bound, whoever writes to a topic."""


def encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    """The names as keys of application properties; None where one means more than itself, or is there twice."""
    return _encoded(names) if len("".join(names)) <= _LONG else None


@lru_cache(maxsize=256)
def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    if len(set(names)) < len(names) or any(name.startswith(RESERVED) or name in _MEANING for name in names):
        return None
    return tuple(map(encode, names))
