"""Encoded names of headers without special meaning; the records of a topic usually have the same names.

Records of other producers with such names are encoded as messages in C: `_messages.h` puts the contents between the
names. Other records use `decode`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bridges.kafka.records.cloudevents import VERSION
from bridges.kafka.records.headers import CONTENT_TYPE, RESERVED
from gateway.amqp.codec.codec import encode

_SPECIAL: Final = (CONTENT_TYPE, VERSION)
_MAX_CACHED: Final = 1024
"""Characters of all names of a record that are cached, so that producers cannot fill the memory."""


def encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    """The names as keys of application properties; None: a name has a special meaning or occurs twice."""
    return _encoded(names) if len("".join(names)) <= _MAX_CACHED else None


@lru_cache(maxsize=256)
def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    if len(set(names)) < len(names) or any(name.startswith(RESERVED) or name in _SPECIAL for name in names):
        return None
    return tuple(map(encode, names))
