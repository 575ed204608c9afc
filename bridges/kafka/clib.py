"""Functions of librdkafka that its Python binding does not offer, from the very library that the binding has loaded."""

from __future__ import annotations

import ctypes
from typing import Any

from confluent_kafka import cimpl


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
