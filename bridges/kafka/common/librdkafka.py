"""Functions of librdkafka that its Python binding does not have, from the library that the binding has loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from confluent_kafka import cimpl, version

ClientSettings: TypeAlias = Mapping[str, Any]
"""The settings of a client, by librdkafka's names: texts, numbers, booleans, and callbacks of any kind."""
CFunction: TypeAlias = Any
"""A C function of `ctypes`, which has no static types for arguments and results."""
SUPPORTED_LAYOUTS: Final = frozenset[object]({"2.16.1"})
"""Versions of confluent-kafka whose client objects begin with librdkafka's handle (`_client.h`)."""
KNOWN: Final = "2.16.1"
"""The version that the warning about a slow client recommends."""
_UNSIGNED: Final = "enable.sasl.oauthbearer.unsecure.jwt"


def function(name: str, result: type | None, *arguments: type) -> CFunction:
    """A public function, to be called through `ctypes`; raises AttributeError if the library does not have it."""
    # The symbols of a library include those of its dependencies: no path to librdkafka is needed.
    found = getattr(ctypes.CDLL(cimpl.__file__), name)
    found.restype, found.argtypes = result, arguments
    return found


def address(name: str) -> int:
    """The address of a public function, for C code that calls it; raises AttributeError as above."""
    found = ctypes.cast(getattr(ctypes.CDLL(cimpl.__file__), name), ctypes.c_void_p).value
    assert found is not None
    return found


def bind(c_bind: Callable[[tuple[int, ...], Any], object], functions: Iterable[str], client: type) -> bool:
    """Give C code the addresses of these functions, and the class of its clients.

    Returns whether the C code supports this version of the client, and this build exports the functions.
    """
    if version() not in SUPPORTED_LAYOUTS:
        return False
    try:
        c_bind(tuple(map(address, functions)), client)
    except AttributeError:
        return False
    return True


def slowness(bound: bool) -> str | None:
    """Why records are handled one by one, which is half as fast, and the remedy; None: they are not.

    `bound`: whether the C code supports the client (`poll.BOUND`, `produce.client.BOUND`).
    """
    if bound:
        return None
    found = str(cimpl.version())
    cause = f"this version of confluent-kafka is {found}, and the fast path knows only {KNOWN}"
    if found in SUPPORTED_LAYOUTS:
        cause = f"this build of confluent-kafka {found} does not show librdkafka's functions"
    effect = "Kafka records are handled one by one, which is about half as fast"
    return f"{effect}: {cause}; install confluent-kafka=={KNOWN}"


def calls_back(settings: ClientSettings) -> bool:
    """Whether a client with these settings must be polled by its own `poll` or `consume`.

    They call callbacks and loggers, and make unsecured tokens for tests.
    """
    return any(callable(value) or name in ("logger", _UNSIGNED) for name, value in settings.items())
