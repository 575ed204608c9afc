"""Converts between proton's structures and our values: data, conditions, termini.

`pn_data_encode` and `pn_data_decode` turn any `pn_data_t` into wire bytes and back, so that one codec of
ours serves the control plane and the message sections alike. Only the control plane comes through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cproton_ffi import ffi, lib

from gateway.amqp.codec import codec
from gateway.amqp.codec.types import Array, Symbol, Value, ValueMap
from gateway.amqp.proton.handles import CString, ProtonCondition, ProtonConnection, ProtonData, ProtonTerminus
from gateway.errors import AmqpError

_BUFFER: Final = 4096
NUL_SHOWN: Final = "\u2400"
"""SYMBOL FOR NULL, because proton ends a description at a NUL."""


def read(data: ProtonData) -> object:
    """The value of a `pn_data_t`, None when it is empty."""
    return codec.decode_all(raw) if (raw := read_bytes(data)) else None


def read_bytes(data: ProtonData) -> bytes:
    """The wire bytes of a `pn_data_t`; empty if it has none (proton creates some only when set)."""
    if not data:
        return b""
    size = lib.pn_data_encoded_size(data)
    if size <= 0:
        return b""
    buffer = ffi.new("char[]", size)
    written = lib.pn_data_encode(data, buffer, size)
    return bytes(ffi.buffer(buffer, written)) if written > 0 else b""


def write(data: ProtonData, value: object) -> None:
    """Replace the content of a `pn_data_t`; None empties it."""
    lib.pn_data_clear(data)
    if value is not None:
        write_bytes(data, codec.encode(value))


def write_raw(data: ProtonData, raw: bytes) -> None:
    """Replace the content of a `pn_data_t` by one encoded value."""
    lib.pn_data_clear(data)
    write_bytes(data, raw)


def write_bytes(data: ProtonData, raw: bytes) -> None:
    """Put one encoded value into an empty `pn_data_t`."""
    lib.pn_data_decode(data, raw, len(raw))


def text(pointer: CString) -> str | None:
    """A C string of proton as text; invalid UTF-8 becomes replacement characters."""
    return str(ffi.string(pointer), "utf-8", "replace") if pointer else None


def read_condition(condition: ProtonCondition, scope: str | None = None, sent: str | None = None) -> AmqpError | None:
    """The error in a close, end, detach or rejection of a peer in `scope`; `sent` replaces proton's description."""
    name = text(lib.pn_condition_get_name(condition))
    if name is None:
        return None
    info = read(lib.pn_condition_info(condition))
    return AmqpError(
        name,
        sent or text(lib.pn_condition_get_description(condition)) or "",
        info={str(key): value for key, value in info.items()} if isinstance(info, dict) else None,
        scope=scope,
    )


def write_condition(condition: ProtonCondition, error: AmqpError | None) -> None:
    """Set the error of the next close, end, detach or rejection."""
    if error is None:
        return
    lib.pn_condition_set_name(condition, error.condition.encode())
    description = error.description.replace("\0", NUL_SHOWN).encode()
    lib.pn_condition_set_description(condition, description or ffi.NULL)
    if error.info:
        write(lib.pn_condition_info(condition), {Symbol(key): value for key, value in error.info.items()})


def symbols(value: object) -> list[Symbol]:
    """Capabilities and outcomes as a list: peers send an array of symbols or a lone symbol (ES-3.1-1)."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Symbol(value)]
    items = value.items if isinstance(value, Array) else value
    return (
        [Symbol(item) for item in items if isinstance(item, str)] if isinstance(items, list | tuple) else []
    )


def names(data: ProtonData) -> frozenset[str]:
    """The capabilities in a peer's open."""
    return frozenset(str(name) for name in symbols(read(data)))


def write_open(
    connection: ProtonConnection, offered: Iterable[str], desired: Iterable[str], properties: Mapping[str, object]
) -> None:
    """Fill in our open (2.7.1)."""
    write(lib.pn_connection_offered_capabilities(connection), capability_array(offered))
    write(lib.pn_connection_desired_capabilities(connection), capability_array(desired))
    if properties:
        write(lib.pn_connection_properties(connection), symbol_keys(properties))


class TerminusFields(NamedTuple):
    """A source or target of a peer's attach.

    `present` False is an absent terminus, `address` None the anonymous terminus (CORE-11).
    """

    present: bool
    coordinator: bool
    address: str | None
    dynamic: bool
    durable: int
    expiry: int
    timeout: int
    capabilities: list[Symbol]
    filter: ValueMap
    outcomes: list[Symbol]
    distribution_mode: str | None
    properties: ValueMap


ABSENT: Final = TerminusFields(False, False, None, False, 0, 0, 0, [], {}, [], None, {})
"""An absent terminus; `_replace` makes termini of internal links of it."""

_MODES: Final = {lib.PN_DIST_MODE_COPY: "copy", lib.PN_DIST_MODE_MOVE: "move"}


def read_terminus(terminus: ProtonTerminus) -> TerminusFields:
    """Decode a terminus once, when the link attaches."""
    kind = lib.pn_terminus_get_type(terminus)
    filters, properties = read(lib.pn_terminus_filter(terminus)), read(lib.pn_terminus_properties(terminus))
    return TerminusFields(
        present=kind != lib.PN_UNSPECIFIED,
        coordinator=kind == lib.PN_COORDINATOR,
        address=text(lib.pn_terminus_get_address(terminus)),
        dynamic=bool(lib.pn_terminus_is_dynamic(terminus)),
        durable=lib.pn_terminus_get_durability(terminus),
        expiry=lib.pn_terminus_get_expiry_policy(terminus),
        timeout=lib.pn_terminus_get_timeout(terminus),
        capabilities=symbols(read(lib.pn_terminus_capabilities(terminus))),
        filter=filters if isinstance(filters, dict) else {},
        outcomes=symbols(read(lib.pn_terminus_outcomes(terminus))),
        distribution_mode=_MODES.get(lib.pn_terminus_get_distribution_mode(terminus)),
        properties=properties if isinstance(properties, dict) else {},
    )


class AttachReply(NamedTuple):
    """The fields of our answer to an attach that differ from the peer's request.

    `address` None keeps the peer's; `filter` and `capabilities` are exactly what is in force.
    """

    address: str | None = None
    capabilities: Iterable[str] = ()
    properties: Mapping[Value, Value] | None = None
    filter: Mapping[Value, Value] | None = None
    distribution_mode: str | None = None
    max_message_size: int = 0
    node_properties: Mapping[Value, Value] | None = None
    dynamic: bool = False
    own: Iterable[str] = ()
    """The capabilities of our own terminus, for links of ours."""
    durable: bool = False
    """The terminus outlives its link; one that we request lives until it is closed."""
    volatile: bool = False
    """A terminus that outlives its link, but not this process."""
    settled: bool = False
    """Pre-settled messages: requested for links of ours, and all that a sender of ours sends on the peer's."""
    coordinator: bool = False
    """The target of a link of ours is the coordinator (part 4, 4.5.1)."""
    stays: bool = False
    """Links of ours: a message that would end the link is rejected, for after a detach it would come again."""


def answer_terminus(mine: ProtonTerminus, granted: AttachReply, *, source: bool) -> None:
    """Fill our answer's terminus, a copy of the peer's request, with what is in force (CORE-3).

    A terminus that outlives its link keeps its configuration (CORE-6, ledger A34), unless only this process knows it;
    expiry is that of the request.
    """
    lasting = granted.durable and not granted.volatile
    lib.pn_terminus_set_durability(mine, lib.PN_CONFIGURATION if lasting else lib.PN_NONDURABLE)
    if granted.address is not None:
        lib.pn_terminus_set_address(mine, granted.address.encode())
    if granted.dynamic:
        lib.pn_terminus_set_dynamic(mine, True)
    write(lib.pn_terminus_capabilities(mine), capability_array(granted.capabilities))
    if granted.node_properties is not None:
        write(lib.pn_terminus_properties(mine), dict(granted.node_properties))
    if source:
        write(lib.pn_terminus_filter(mine), dict(granted.filter) if granted.filter else None)
        modes = {"copy": lib.PN_DIST_MODE_COPY, "move": lib.PN_DIST_MODE_MOVE}
        if granted.distribution_mode in modes:
            lib.pn_terminus_set_distribution_mode(mine, modes[granted.distribution_mode])


def capability_array(names: Iterable[str]) -> Array | None:
    """Names as an array of symbols, which every client can read; None if there are none."""
    items = [Symbol(name) for name in names]
    return Array("symbol", tuple(items)) if items else None


def symbol_keys(values: Mapping[str, object]) -> dict[Symbol, object]:
    """A map with symbol keys, as open, attach and error info need it."""
    return {Symbol(key): value for key, value in values.items()}
