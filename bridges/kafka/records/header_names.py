"""Names of headers without special meaning, encoded: the records of a topic have the same ones.

Records of other applications with such names become messages in C: `_messages.h` puts the contents between the names.
Other records go through `decode`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bridges.kafka.records.cloudevents import VERSION
from bridges.kafka.records.headers import CONTENT_TYPE, RESERVED
from gateway.amqp.codec.codec import encode

_MEANING: Final = (CONTENT_TYPE, VERSION)
_LONG: Final = 1024
"""Characters of all names of a record that are remembered: producers cannot fill the memory."""


def encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    """The names as keys of application properties; None where one has a special meaning, or occurs twice."""
    return _encoded(names) if len("".join(names)) <= _LONG else None


@lru_cache(maxsize=256)
def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...] | None:
    if len(set(names)) < len(names) or any(name.startswith(RESERVED) or name in _MEANING for name in names):
        return None
    return tuple(map(encode, names))
