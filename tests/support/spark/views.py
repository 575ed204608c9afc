"""An archive whose views have something to show, and what they must show in every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from bridges.spark.archive.store import Archive
from bridges.spark.columns.rows import EventRow
from gateway.amqp.codec.types import Timestamp, Ulong
from tests.support.amqp.messages import message
from tests.support.spark import archives
from tests.support.spark.report import START

ODD_NAME: Final = "it's `odd` \"q\"; DROP TABLE x --\\"
HOURS: Final = 3_600_000
SCHEMA: Final = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}})
QUERY: Final = """
SELECT count(*), sum(props.n), count(props.color), min(props.mixed), sum(props.u), count(key), min(key),
  count(json.id), sum(json.id), sum(json.deep.x), max(json.mix), sum(CASE WHEN json_mistake THEN 1 ELSE 0 END),
  count(body), count({date}), sum(CASE WHEN props.{odd} = 1.5 THEN 1 ELSE 0 END), min(message_id)
FROM {view}
"""
EXPECTED: Final = (
    50, sum(range(50)), 50, "0", sum(range(50)), 50, "k0", 45, sum(n for n in range(50) if n % 10 != 9), 45,
    '{"a":1}', 5, 50, 50, 50, "7",
)  # fmt: skip


def archived(path: Path, *, old: bool = False) -> Archive:
    """`orders/eu`: properties of odd names and types, JSON bodies of which each tenth is broken. `raw`: bytes.

    `typed`: JSON after the id of its schema.
    """
    return archives.written(path, events(), old=old)


def also_new(archive: Archive) -> None:
    """The same events once more, in files of today's layout."""
    with archive.writing():
        archives.append(archive, events(first=1000))


def events(first: int = 0) -> dict[str, list[EventRow]]:
    """By address; offsets begin at `first`."""
    orders = []
    for number in range(50):
        properties: dict[str, Any] = {
            "color": "red", "Color": "RED", "n": number, "mixed": number if number % 2 else str(number),
            ODD_NAME: 1.5, "": "empty", "line\nbreak": True, "u": Ulong(number), "at": Timestamp(START),
        }  # fmt: skip
        document = {"id": number, "name": "x", "deep": {"x": 1}, "mix": {"a": 1} if number % 2 else 5}
        body = b"{broken" if number % 10 == 9 else json.dumps(document, separators=(",", ":")).encode()
        data = message(body, app=properties, message_id="7")
        orders.append(EventRow(0, first + number, START + number * HOURS, b"k%d" % number, data))
    avro = message(b"\x00\x00\x00\x01\x02avro\xff")
    raw = [EventRow(0, first + number, START, b"\xff\x00", avro) for number in range(5)]
    prefix = b"\x00\x00\x00\x00\x07"
    typed = [EventRow(0, first + number, START, None, message(prefix + b'{"id": %d}' % number)) for number in range(5)]
    return {"orders/eu": orders, "raw": raw, "typed": typed}
