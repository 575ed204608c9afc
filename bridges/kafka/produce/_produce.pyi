"""Records on their way to Kafka (`_produce.c`); `bridges.kafka.produce.client` is what uses it."""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, final

from typing_extensions import Buffer

Header = tuple[str, bytes | None]
Group = tuple[Any, int, bool, list[Any]]
"""Owner, librdkafka's code (0: written), whether the records have keys (said of those that are not), contexts."""
Column = tuple[Buffer, Buffer | None, Buffer | None, int]
"""Texts or binaries in Arrow's layout: ends, data, bits of validity, and the number of the first row."""
Columns = tuple[int, Buffer, Buffer, Column, Column, Buffer, int, Column, Column]
"""Count, partitions, times, keys, values; ends of the lists of headers and their first row; names, contents."""
Error = tuple[int, str, bool]
"""Code, reason, whether it is fatal."""

@final
class Outbox:
    def __init__(self, client: object, /) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def written(self) -> tuple[tuple[int, ...], float]: ...
    def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        owner: Any,
        context: Any,
        /,
    ) -> int: ...
    def put_messages(
        self,
        topic: str,
        partition: int,
        messages: Sequence[tuple[Any, bytes, bool]],
        start: int,
        owner: Any,
        rules: int = 0,
        /,
    ) -> int: ...
    def put_rows(self, topic: str, key: bytes | None, rows: list[Any], owner: object, /) -> int: ...
    def put_columns(self, topic: str, records: Columns, start: int, /) -> tuple[int, int]: ...
    def settle(self, milliseconds: int, /) -> tuple[int, int, int]: ...
    def wake(self, file: int, /) -> None: ...
    def reports(self) -> tuple[list[Group], list[Error]]: ...

def bind_sha256(init: int, update: int, final: int, /) -> None: ...
def usual(messages: Sequence[tuple[Any, bytes, bool]], start: int, rules: int, /) -> int: ...
def record_of(message: bytes, rules: int, /) -> tuple[bytes | None, bytes | None, list[Header]] | EllipsisType:
    """Key, value and headers of the record; `rules` as of `RecordWriter.rules`."""

def bind(addresses: tuple[int, ...], clients: type[Any], /) -> None: ...
