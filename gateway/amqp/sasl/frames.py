"""SASL frames (AMQP 1.0 part 5, 5.3.3) as bytes, and the part of the exchange both roles share."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Literal, TypeVar, overload

from gateway.amqp.codec.codec import Described, Symbol, Ubyte, Ulong, decode_all, encode, malformed
from gateway.amqp.codec.types import Value, ValueList
from gateway.errors import FRAMING_ERROR, AmqpError

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
# 5.3.1 bounds a SASL frame by MIN-MAX-FRAME-SIZE, 512 bytes, on both sides. We send no more than that,
# but take more: long passwords and tokens are sent in one frame by clients that are otherwise correct.
MIN_MAX_FRAME: Final = 512
MAX_FRAME: Final = 4096

T = TypeVar("T")
_HEAD: Final = struct.Struct(">IBBH")
_TYPE_SASL: Final = 1


class Kind(IntEnum):
    """Descriptor codes of the SASL performatives."""

    MECHANISMS = 0x40
    INIT = 0x41
    CHALLENGE = 0x42
    RESPONSE = 0x43
    OUTCOME = 0x44


class Code(IntEnum):
    """5.3.3.6, sasl-code."""

    OK = 0
    AUTH = 1
    SYS = 2
    SYS_PERM = 3
    SYS_TEMP = 4


_KINDS: Final[dict[object, Kind]] = {
    **{Ulong(kind): kind for kind in Kind},
    **{Symbol(f"amqp:sasl-{kind.name.lower()}:list"): kind for kind in Kind},
}


def frame(kind: Kind, *fields: Value) -> bytes:
    """One SASL frame."""
    body = encode(Described(Ulong(kind), list(fields)))
    return _HEAD.pack(_HEAD.size + len(body), 2, _TYPE_SASL, 0) + body


def outcome(code: Code, additional_data: bytes | None = None) -> bytes:
    """The sasl-outcome frame."""
    return frame(Kind.OUTCOME, Ubyte(code), additional_data)


@overload
def field(fields: ValueList, index: int, kind: type[T], *, mandatory: Literal[True]) -> T: ...
@overload
def field(fields: ValueList, index: int, kind: type[T]) -> T | None: ...
def field(fields: ValueList, index: int, kind: type[T], *, mandatory: bool = False) -> T | None:
    """Field `index` of a performative, checked; trailing fields may be absent, which means null.

    Raises:
        AmqpError: it has another type, or is null and mandatory.
    """
    value = fields[index] if index < len(fields) else None
    if value is None and not mandatory:
        return None
    if type(value) is not kind:
        raise malformed(f"SASL field {index} is not of type {kind.__name__}")
    return value


class SaslMachine(ABC):
    """Splits the byte stream into frames and passes each to `_on_frame` until the exchange is over.

    Every input either continues the exchange or ends it as `failed`; nothing is raised. After `done`, `rest` has the
    bytes after the exchange: the AMQP header, and sometimes more.
    """

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        self._out = bytearray()
        self._rest = b""
        self.done = False
        self.failed = False
        self.reason = ""
        """Why it failed: one of a few words, for a metric's label."""
        self.claimed: str | None = None
        """The user name of a failed login, as the client gave it: for the log, never for a label."""
        self.user = ""
        self.mechanism = ""

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, in pieces of any size."""
        if self.failed:
            return
        self._buffer += data
        try:
            while not (self.done or self.failed or self.check is not None) and (body := self._cut()) is not None:
                self._on_frame(*_parse(body))
        except AmqpError:
            self._on_malformed()
        if self.done:
            self._rest += bytes(self._buffer)
        if self.done or self.failed:
            self._buffer.clear()

    @property
    def check(self) -> Callable[[], bool] | None:
        """A password check to run outside the event loop before the exchange continues; then call `checked`."""
        return None

    def checked(self, passes: bool) -> None:
        """The result of `check`."""
        raise AssertionError("nothing was to be checked")

    def take(self) -> bytes:
        """Bytes to send now; after a failure, the last ones before closing."""
        out = bytes(self._out)
        self._out.clear()
        return out

    @property
    def rest(self) -> bytes:
        """The bytes after the exchange; returned once."""
        rest, self._rest = self._rest, b""
        return rest

    def _cut(self) -> bytes | None:
        if len(self._buffer) < _HEAD.size:
            return None
        size, doff, kind, _ = _HEAD.unpack_from(self._buffer)
        if kind != _TYPE_SASL or doff < 2 or not 4 * doff <= size <= self._max_frame:
            raise AmqpError(FRAMING_ERROR, "not a SASL frame")
        if len(self._buffer) < size:
            return None
        body = bytes(self._buffer[4 * doff : size])
        del self._buffer[:size]
        return body

    def _fail(self, reason: str) -> None:
        self.failed = True
        self.reason = reason

    @abstractmethod
    def _on_frame(self, kind: Kind, fields: ValueList) -> None: ...

    @abstractmethod
    def _on_malformed(self) -> None: ...


def _parse(body: bytes) -> tuple[Kind, ValueList]:
    value = decode_all(body)
    if type(value) is not Described or type(value.value) is not list:
        raise malformed("a SASL frame has no performative")
    if type(value.descriptor) not in (Ulong, Symbol) or value.descriptor not in _KINDS:
        raise malformed("unknown SASL performative")
    return _KINDS[value.descriptor], value.value
