"""Records of a Kafka client, many at a time (`_fetch.c`); `bridges.kafka.consume.poll` is what takes them."""

from collections.abc import Callable, Sequence
from typing import Any, Never, TypeVar, final, overload

_Event = TypeVar("_Event")
_Bytes6 = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
_Names = Callable[[tuple[str, ...]], tuple[bytes, ...] | None]

Maker = tuple[tuple[_Bytes6, _Bytes6, _Bytes6], tuple[bytes, bytes, bytes], _Names, Callable[[bytes], bytes]]
"""How messages are made: a `bridges.kafka.records.fast_encode.MessageTemplate` for each timestamp type; the names of
the headers `amqp.bare` and of a cookie, and the prefix of those of a request; the encoder of header names; SHA-256."""

Binaries = tuple[bytes | None, bytes, bytes]
"""The buffers of an Arrow array of binaries: validity bits (None: no nulls), offsets of 32 bits, bytes."""

@final
class Record:
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def error(self) -> None: ...
    def __len__(self) -> int: ...
    def event(self, event: type[_Event], maker: Maker, other: Callable[[Record], bytes], /) -> _Event: ...

@final
class Run(Sequence[Record]):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Never:
        """It has no slices: TypeError."""

    def events(
        self, event: type[_Event], maker: Maker, other: Callable[[Record], bytes], /
    ) -> tuple[list[_Event], list[bytes]]: ...
    def screened(
        self, pairs: tuple[tuple[bytes, bytes], ...], bare: bytes, reserved: bytes, whole: tuple[bytes, bytes], /
    ) -> list[Record]: ...

    def columns(self) -> tuple[bytes, bytes, bytes, Binaries, Binaries, Binaries, Binaries, Binaries, int]:
        """Offsets, times and their kinds (int64, int64, int32), keys, values, headers, their names and contents.

        Headers are lists of which only validity and offsets are filled. The last item is 0 if a name is not ASCII.
        """

def bind_sha256(init: int, update: int, final: int, /) -> None: ...
def seal(
    kind: int, key: bytes | None, value: bytes | None, exact: bytes, headers: list[tuple[str, bytes | None]], /
) -> bytes | None: ...
def sha256(data: bytes, /) -> bytes | None: ...

Failure = tuple[int, str, bool, str | None, int, int]
"""Code, reason, whether it is fatal, topic, partition, offset."""

def bind(addresses: tuple[int, ...], clients: type[Any], /) -> None: ...
def take(
    consumer: object, most: int, bytes: int, milliseconds: int, bare: bytes | None = None, least: int = 0, /
) -> tuple[list[Run], list[Failure]]:
    """`bare`: the name of `amqp.bare`, if the digests of values of `least` bytes are to be checked here."""
