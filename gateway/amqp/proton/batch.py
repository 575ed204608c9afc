"""Passes proton's functions to the C code that calls them for many deliveries at once (`_batch.c`).

Both use the library that the Python binding has loaded. The binding knows the functions' types, so a function of an
unexpected type is found here at the start of the gateway, and not by a crash.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Final

import cproton_ffi
from cproton_ffi import ffi, lib

from gateway.amqp.proton._batch import (
    ACQUISITION,
    BEFORE_ACQUISITION,
    BEFORE_END,
    CONTROL,
    ECHO_LINK,
    ECHO_SESSION,
    EMPTY_DRAIN,
    LARGE_CREDIT,
    LONG_DISPOSITION,
    ONE_STATE,
    OTHER_FORMAT,
    READ_STATE,
    SCAN_STATE,
    SECOND_BOUNDS,
    SIZE_BOUNDS,
    SPLIT_DISPOSITION,
    WITH_STATE,
    Measures,
    Received,
    Tally,
    Unsettled,
    accept,
    accept_all,
    bind,
    bind_log,
    capture_log,
    forward,
    largest_frame,
    measure_memory,
    restated,
    same_state,
    scan,
    send,
    send_all,
    sender_attaches,
    settle_all,
    take_error,
    take_output,
)
from gateway.amqp.proton._batch import (
    all_plain as all_plain,
)
from gateway.amqp.proton._batch import (
    drain_events as drain_events,
)
from gateway.amqp.proton.handles import ProtonDelivery

__all__ = [
    "ACQUISITION",
    "BEFORE_ACQUISITION",
    "BEFORE_END",
    "CONTROL",
    "ECHO_LINK",
    "ECHO_SESSION",
    "EMPTY_DRAIN",
    "LARGE_CREDIT",
    "LONG_DISPOSITION",
    "ONE_STATE",
    "OTHER_FORMAT",
    "READ_STATE",
    "SCAN_STATE",
    "SECOND_BOUNDS",
    "SIZE_BOUNDS",
    "SPLIT_DISPOSITION",
    "WITH_STATE",
    "Measures",
    "Received",
    "Tally",
    "Unsettled",
    "accept",
    "accept_all",
    "address",
    "all_plain",
    "capture_log",
    "delivery_at",
    "drain_events",
    "event_table",
    "forward",
    "largest_frame",
    "measure_memory",
    "restated",
    "same_state",
    "scan",
    "send",
    "send_all",
    "sender_attaches",
    "settle_all",
    "take_error",
    "take_output",
]

_SESSION: Final = "struct pn_session_t *"
_EVENT, _DELIVERY, _LINK = "struct pn_event_t *", "struct pn_delivery_t *", "struct pn_link_t *"
_DATA, _DISPOSITION = "struct pn_data_t *", "struct pn_disposition_t *"
_COLLECTOR, _TRANSPORT, _BYTES = "struct pn_collector_t *", "struct pn_transport_t *", "struct pn_bytes_t"
_FUNCTIONS: Final = (
    ("pn_delivery", _DELIVERY, _LINK, _BYTES),
    ("pn_link_send", "ssize_t", _LINK, "char *", "size_t"),
    ("pn_link_advance", "_Bool", _LINK),
    ("pn_delivery_settle", "void", _DELIVERY),
    ("pn_delivery_update", "void", _DELIVERY, "uint64_t"),
    ("pn_collector_peek", _EVENT, _COLLECTOR),
    ("pn_collector_pop", "_Bool", _COLLECTOR),
    ("pn_event_type", "pn_event_type_t", _EVENT),
    ("pn_event_delivery", _DELIVERY, _EVENT),
    ("pn_delivery_link", _LINK, _DELIVERY),
    ("pn_link_is_sender", "_Bool", _LINK),
    ("pn_delivery_tag", _BYTES, _DELIVERY),
    ("pn_delivery_remote_state", "uint64_t", _DELIVERY),
    ("pn_delivery_settled", "_Bool", _DELIVERY),
    ("pn_delivery_readable", "_Bool", _DELIVERY),
    ("pn_delivery_partial", "_Bool", _DELIVERY),
    ("pn_delivery_aborted", "_Bool", _DELIVERY),
    ("pn_delivery_pending", "size_t", _DELIVERY),
    ("pn_link_recv", "ssize_t", _LINK, "char *", "size_t"),
    ("pn_transport_pending", "ssize_t", _TRANSPORT),
    ("pn_transport_peek", "ssize_t", _TRANSPORT, "char *", "size_t"),
    ("pn_transport_pop", "void", _TRANSPORT, "size_t"),
    ("pn_session_incoming_bytes", "size_t", _SESSION),
    ("pn_session_outgoing_bytes", "size_t", _SESSION),
    ("pn_delivery_remote", _DISPOSITION, _DELIVERY),
    ("pn_delivery_local", _DISPOSITION, _DELIVERY),
    ("pn_disposition_data", _DATA, _DISPOSITION),
    ("pn_data_encode", "ssize_t", _DATA, "char *", "size_t"),
    ("pn_data_encoded_size", "ssize_t", _DATA),
    ("pn_data_decode", "ssize_t", _DATA, "char *", "size_t"),
    ("pn_data_clear", "void", _DATA),
)
"""Name, result and arguments, in the order of the table in `_batch.c`."""


def address(pointer: object) -> int:
    """A pointer of proton as a number, for the C code."""
    return int(ffi.cast("uintptr_t", pointer))


def event_table(kinds: Iterable[int]) -> bytes:
    """A table of the kinds of events that `drain_events` returns; it discards all others."""
    table = bytearray(256)
    for kind in kinds:
        table[kind] = 1
    return bytes(table)


def delivery_at(number: int) -> ProtonDelivery:
    """The delivery that the C code gave as a number, for the binding's own functions."""
    found: ProtonDelivery = ffi.cast("pn_delivery_t *", number)
    return found


def _function(name: str, result: str, *arguments: str) -> int:
    found = ffi.addressof(lib, name)
    expected, actual = f"{result}(*)({', '.join(arguments)})", ffi.typeof(found).cname
    if actual != expected:
        raise ImportError(f"python-qpid-proton's {name} is {actual}, this gateway was made for {expected}")
    return address(found)


bind(tuple(_function(*each) for each in _FUNCTIONS))


def _bind_log() -> None:
    """proton's logging, which the library has but the binding lacks."""
    library = ctypes.CDLL(cproton_ffi.__file__)
    functions = (library.pn_transport_logger, library.pn_logger_set_log_sink)
    logger, set_sink = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)
    bind_log(logger, set_sink)


_bind_log()
