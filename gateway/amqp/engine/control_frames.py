"""Finds and checks the control frames of a peer, when the engine has seen that there are some (part 2, 2.3).

proton reads frames, but shows only events. Scanning all frames again would cost time for every message, so this scans
only after an event shows that the bytes just pushed contain a control frame. To know where a frame begins, it tracks
how much of an unfinished frame proton holds: the size of proton's input buffer less its capacity.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.amqp.codec.types import ValueList
from gateway.amqp.engine.performatives import (
    ATTACH,
    BEGIN,
    DETACH,
    END,
    MOST_HANDLES,
    OPEN,
    Performative,
    read_control,
    transfer_head,
)
from gateway.amqp.link.attach_info import AttachInfo, read_attach_info, weight
from gateway.amqp.link.port import RESUMED
from gateway.amqp.proton.batch import (
    CONTROL,
    LARGE_CREDIT,
    LONG_DISPOSITION,
    ONE_STATE,
    OTHER_FORMAT,
    SCAN_STATE,
    WITH_STATE,
    scan,
)
from gateway.errors import FRAMING_ERROR, ILLEGAL_STATE, RESOURCE_LIMIT_EXCEEDED, AmqpError

_HEAD: Final = struct.Struct(">IBBH")
_HEADER: Final = b"AMQP"
_HEADER_SIZE: Final = 8
_PER_MESSAGE: Final = (b"\x00\x53\x13", b"\x00\x53\x14", b"\x00\x53\x15")
_TRANSFER: Final = _PER_MESSAGE[1]
_ERROR: Final = b"\x00\x53\x1d"
_NO_CUT: Final = (OTHER_FORMAT, WITH_STATE, LARGE_CREDIT)
"""What the scan finds that concerns all later transfers, or is mended at once; anything else is a place to cut."""
_MUCH: Final = 0x7F
"""The first byte of a credit that is as good as any larger one: more than 2,130 million messages."""
_FORMATS: Final = 4096
"""Maximum number of incomplete deliveries of other formats that are remembered from one push to the next."""
_LONGEST_NAME: Final = 4096
"""Characters of a link name: proton compares the names of all links of a session with that of each new one."""
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"


class ControlFrameInspector:
    """The incoming side of one connection: its position in the stream, and the channels and handles in use."""

    __slots__ = (
        "_asked", "_begun", "_channels", "_data", "_end", "_formats", "_held", "_opened", "_room", "_scan", "_seen",
        "_size", "_start", "opening", "transacting", "watching",
    )  # fmt: skip

    def __init__(self, room: int) -> None:
        self._size = self._room = room
        """The size of proton's input buffer, and the free bytes in it before the last push."""
        self._data = b""
        self._start = self._end = 0
        self._held = bytearray()
        """The beginning of an unfinished frame that came with earlier data."""
        self._seen = True
        self._opened = False
        self._channels: dict[int, dict[int, str]] = {}
        """The names of the links by channel and handle."""
        self._asked: deque[AttachInfo] = deque()
        self._begun: deque[tuple[int, int]] = deque()
        self.opening = 0
        """The `weight` of the peer's open."""
        self.watching = False
        """Whether the peer has used another message-format than 0: then `look` is called after every push."""
        self.transacting = False
        """Whether the peer has sent a transfer with a state: its messages may be those of transactions."""
        self._scan: Final = bytearray(SCAN_STATE)
        self._formats: dict[tuple[str | None, bytes], int] = {}
        """The message-formats of deliveries that are not of format 0, by link name and tag."""

    # -- once per push

    def scanned(self, data: bytes) -> tuple[bytes, Sequence[tuple[int, int, int]]]:
        """What proton may read for `data`, and where that has to be cut: positions, with reason (`scan`) and channel.

        That is nearly always `data` itself, and no position.
        """
        if (found := scan(self._scan, data, 0, len(data))) is None:
            return data, ()
        kinds = [what for _, what, _ in found]
        self.watching = self.watching or OTHER_FORMAT in kinds
        self.transacting = self.transacting or WITH_STATE in kinds
        if LARGE_CREDIT in kinds:
            data = _with_less_credit(data, [position for position, what, _ in found if what == LARGE_CREDIT])
        return data, [each for each in found if each[1] not in _NO_CUT]

    @property
    def one_state(self) -> bool:
        """Whether the messages of a run that end in the scanned data came with the same state."""
        return self._scan[ONE_STATE] == 1

    @property
    def each_piece(self) -> bool:
        """Whether events must be handled after each push: the scanned data may have control frames."""
        return self.watching or self._scan[CONTROL] == 1

    def frame(self, data: bytes, start: int, end: int) -> bytes:
        """The frame that ends here; `start`: where it begins, or 0 if it began in earlier data."""
        return data[start:end] if start else bytes(self._held) + data[:end]

    def split_disposition(self, data: bytes, end: int) -> bytes | None:
        """A disposition that began in earlier data and ends here, if its state may have to be read from the frame."""
        frame = self.frame(data, 0, end)
        return frame if len(frame) > LONG_DISPOSITION or _ERROR in frame else None

    def pushing(self, data: bytes, start: int, room: int, taken: int) -> None:
        """`taken` bytes of `data` from `start` on are about to go into the `room` that proton has."""
        self._data, self._start, self._end, self._room, self._seen = data, start, start + taken, room, False
        while len(self._formats) > _FORMATS:  # of links without a handler
            del self._formats[next(iter(self._formats))]

    def grown(self, room: int) -> None:
        """proton's buffer was full of one unfinished frame and has grown; `room` bytes of it are free."""
        self._size += room

    def pushed(self, data: bytes, room: int) -> None:
        """proton has all of `data`: keep the part of an unfinished frame."""
        unfinished = self._size - room
        if unfinished > len(data):
            self._held += data
            del self._held[: len(self._held) - unfinished]
        else:
            self._held = bytearray(data[len(data) - unfinished :]) if unfinished else bytearray()
        self._data = b""

    # -- once per push that had a control frame

    def look(self) -> None:
        """Check the control frames of the last push, once; raises the AMQP error that ends the connection."""
        if self._seen:
            return
        self._seen = True
        begin = self._start - (self._size - self._room)
        data = self._data[max(begin, 0) : self._end]
        self._walk(bytes(self._held[begin:]) + data if begin < 0 else data)

    def _walk(self, data: bytes) -> None:
        position = _HEADER_SIZE if data.startswith(_HEADER) and not self._opened else 0
        while position + _HEAD.size <= len(data):
            size, offset, kind, channel = _HEAD.unpack_from(data, position)
            body = position + 4 * offset
            if not _HEAD.size <= 4 * offset <= size or position + size > len(data):
                return  # malformed, which proton reports itself, or unfinished
            if kind != 0:
                raise AmqpError(FRAMING_ERROR, f"unexpected frame type {kind}")
            if 4 * offset < size:
                head = data[body : body + 3]
                if head not in _PER_MESSAGE:
                    self._frame(channel, data[body : position + size])
                elif self.watching and head == _TRANSFER:
                    self._transfer(self._channels.get(channel, {}), data[body : position + size])
            position += size

    def _frame(self, channel: int, body: bytes) -> None:
        control = read_control(channel, body)
        if control is not None:
            self._follow(control, len(body))
        elif self.watching:
            self._transfer(self._channels.get(channel, {}), body)

    def _follow(self, control: Performative, size: int) -> None:
        """Track channels and handles in use, and refuse a second open: proton would mix old and new ones."""
        code, channel, fields = control
        if code == OPEN:
            if self._opened:
                raise AmqpError(ILLEGAL_STATE, "the connection is already open")
            self._opened, self.opening = True, weight(fields, size)
        elif code == BEGIN:
            if channel in self._channels:
                raise AmqpError(ILLEGAL_STATE, f"channel {channel} already has a session")
            self._channels[channel] = {}
            handle_max = fields[4] if len(fields) > 4 else None
            self._begun.append((channel, MOST_HANDLES if handle_max is None else handle_max))
        elif code == END:
            self._channels.pop(channel, None)
        elif code == ATTACH:
            self._attach(self._channels.get(channel, {}), fields, size)
        elif code == DETACH:
            self._channels.get(channel, {}).pop(fields[0], None)

    def _attach(self, handles: dict[int, str], fields: ValueList, size: int) -> None:
        name, handle = fields[:2]
        if len(name) > _LONGEST_NAME:
            text = f"a link name has {len(name)} characters; the limit is {_LONGEST_NAME}"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        if handle in handles:
            raise AmqpError(HANDLE_IN_USE, f"handle {handle} already has a link")
        handles[handle] = name
        self._asked.append(read_attach_info(fields, size))

    def _transfer(self, handles: dict[int, str], data: bytes) -> None:
        """Note a delivery whose message-format is not 0: proton does not show it. It also reads a wrong handle as 0."""
        handle, tag, message_format, resumed = transfer_head(data)
        if tag is None:  # it continues a delivery
            return
        key = handles.get(handle), tag
        if resumed:
            self._formats[key] = RESUMED
        elif message_format:
            self._formats[key] = int(message_format)
        else:
            self._formats.pop(key, None)

    def message_format(self, name: str, tag: bytes) -> int:
        """The message-format of the last delivery of a link with this tag; asked once."""
        return self._formats.pop((name, tag), 0)

    def asked(self) -> AttachInfo:
        """The fields of the next attach that proton does not show, in order of arrival."""
        return self._asked.popleft()

    def begun(self) -> tuple[int, int]:
        """The channel and handle-max of the next begin, in order of arrival."""
        return self._begun.popleft()


def _with_less_credit(data: bytes, positions: Iterable[int]) -> bytes:
    """The data with less credit where proton would take it for none: it reads 2^31 and more as a negative number."""
    changed = bytearray(data)
    for position in positions:
        changed[position] = _MUCH
    return bytes(changed)
