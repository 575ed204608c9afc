"""Maps AMQP messages to Kafka records and back (docs/conformance.md, KM-1 to KM-7 and KM-13).

Pure: no Kafka client, no clock. `to_record` and `from_record` map one message; `RecordWriter` and `RecordReader` do so
for a link, and prepare once what is the same for all its messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridges.kafka.records.annotations import AnnotationTemplate, offset_text
from bridges.kafka.records.decode import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, from_record
from bridges.kafka.records.encode import MODES, Record, record_parts, to_record
from bridges.kafka.records.envelope import Header, RestoredMessage
from bridges.kafka.records.routing import routing_annotations
from gateway.amqp.message.sections import SectionOffsets, edit_map

__all__ = [
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "MODES",
    "NO_TIMESTAMP",
    "AnnotationTemplate",
    "Header",
    "Record",
    "RecordReader",
    "RecordWriter",
    "RestoredMessage",
    "from_record",
    "offset_text",
    "to_record",
]


_MAPPED, _TOMBSTONES, _COMPACTED = 1, 2, 4


class RecordWriter:
    """Maps messages to records of one topic.

    `rules` tells C code (bridges/kafka/produce/_record.h) to do the same with most messages; None: it cannot.
    """

    def __init__(
        self,
        mode: str = "auto",
        *,
        tombstones: bool = False,
        compacted: bool = False,
        keys: Sequence[str] = ("group-key",),
    ) -> None:
        self._mode: Final = mode
        self._keys: Final = keys
        self._tombstones: Final = tombstones
        self._compacted: Final = compacted
        mapped = _MAPPED * (tuple(keys) == ("group-key",)) | _TOMBSTONES * tombstones | _COMPACTED * compacted
        self.rules: Final = mapped if mode == "auto" else None

    def record(self, data: bytes, layout: SectionOffsets) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Key, value and headers of the record for a message."""
        tombstones, compacted = self._tombstones, self._compacted
        return record_parts(data, layout, mode=self._mode, tombstones=tombstones, compacted=compacted, keys=self._keys)


class RecordReader:
    """Maps records of one topic to messages."""

    def __init__(self) -> None:
        self.routed = False
        """Whether any message so far had annotations of response routing."""
        self._templates: Final[dict[tuple[int, int], AnnotationTemplate]] = {}

    def encode(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        partition: int,
        offset: int,
        timestamp_type: int,
        ts_ms: int,
    ) -> bytes:
        """The encoded message, with delivery annotations."""
        template = self._templates.get((partition, timestamp_type))
        if template is None:
            template = AnnotationTemplate(partition, timestamp_type)
            self._templates[partition, timestamp_type] = template
        header, rest = from_record(key, value, headers)
        annotations = template.encode(offset, ts_ms)
        if headers and (routing := routing_annotations(headers)):
            self.routed = True
            annotations = edit_map(annotations, put=routing) or b""
        return header + annotations + rest
