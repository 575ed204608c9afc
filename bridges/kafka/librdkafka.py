"""Functions of librdkafka that its Python binding does not offer, from the very library that the binding has loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import cimpl

LAID_OUT: Final[frozenset[Any]] = frozenset({"2.16.1"})
"""Versions of confluent-kafka whose clients have been seen to begin with librdkafka's handle (`_client.h`)."""
KNOWN: Final = "2.16.1"
"""The version to install where another one is slow."""
_UNSIGNED: Final = "enable.sasl.oauthbearer.unsecure.jwt"


def function(name: str, result: Any, *arguments: Any) -> Any:
    """A public function to be called through `ctypes`; AttributeError: this library has none of that name."""
    # Symbols of a library are looked up in what it depends on, too: no path to librdkafka is needed.
    found = getattr(ctypes.CDLL(cimpl.__file__), name)
    found.restype, found.argtypes = result, arguments
    return found


def address(name: str) -> int:
    """Where a public function is, for C code that calls it; AttributeError as above."""
    found = ctypes.cast(getattr(ctypes.CDLL(cimpl.__file__), name), ctypes.c_void_p).value
    assert found is not None
    return found


def slowness(bound: bool) -> str | None:
    """Why records are handled one by one, which is half as fast, and the way out; `None` where they are not.

    `bound`: whether the C code has found what it needs in the client.
    """
    if bound:
        return None
    found = str(cimpl.version())
    cause = f"this version of confluent-kafka is {found}, and the fast path knows only {KNOWN}"
    if found in LAID_OUT:
        cause = f"this build of confluent-kafka {found} does not show librdkafka's functions"
    what = "Kafka records are handled one by one, which is about half as fast"
    return f"{what}: {cause}; install confluent-kafka=={KNOWN}"


def calls_back(settings: Mapping[str, Any]) -> bool:
    """Whether a client with these settings has something to do that only its own `poll` or `consume` does.

    Callbacks and loggers are called there, and there it makes tokens for tests by itself.
    """
    return any(callable(value) or name in ("logger", _UNSIGNED) for name, value in settings.items())
