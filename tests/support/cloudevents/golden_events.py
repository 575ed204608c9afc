"""Forty events, as records: what the golden files of the bindings are made of, by name."""

from __future__ import annotations

import json
from typing import Final

from bridges.kafka.records.headers import BODY
from gateway.amqp.message.sections import AMQP_SEQUENCE, AMQP_VALUE, DATA, section
from tests.support.cloudevents.records import REQUIRED, StoredRecord, binary_record, structured_record

JSON = "application/json"
EXAMPLE: Final = {  # of CloudEvents 1.0, Example
    "specversion": "1.0", "type": "com.github.pull_request.opened", "source": "https://github.com/cloudevents/spec/pull",
    "subject": "123", "id": "A234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value",
    "comexampleothervalue": "5",
}  # fmt: skip


def binary(data: bytes | None = b"{}", content_type: str | None = JSON, **attributes: str) -> StoredRecord:
    return binary_record(REQUIRED | attributes, data, content_type)


def structured(**members: object) -> StoredRecord:
    return structured_record(json.dumps({**REQUIRED, **members}, ensure_ascii=False).encode())


def keyed(key: bytes) -> StoredRecord:
    record = binary(partitionkey=key.decode())
    record.key_ = key
    return record


def in_sections(*sections: bytes) -> StoredRecord:
    record = binary(b"".join(sections), "text/plain")
    assert record.headers_ is not None
    record.headers_.append((BODY, b"sections"))
    return record


RECORDS: Final[dict[str, StoredRecord]] = {
    "required only": binary(None, None),
    "example of the specification": binary_record(EXAMPLE, b'<much wow="xml"/>', "text/xml"),
    "json object": binary(b'{"a": [1, 2.50, null]}'),
    "json string": binary(b'"text"'),
    "json null": binary(b"null"),
    "json with whitespace": binary(b' {\n "a" : 1 }\n'),
    "json with other suffix": binary(b"[1]", "application/vnd.x+json; charset=utf-8"),
    "json that is none": binary(b"{"),
    "json with NaN": binary(b'{"a":NaN}'),
    "json in another encoding": binary("{}".encode("utf-16")),
    "json with a large number": binary(b'{"n":123456789012345678901234567890,"f":1.10}'),
    "no data but a type": binary(None, JSON),
    "empty data": binary(b"", "text/plain"),
    "empty data without type": binary(b"", None),
    "data without type": binary(b"text", None),
    "text": binary("grüße\n".encode(), "text/plain"),
    "text in latin": binary("grüße".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
    "text that is no UTF-8": binary(b"\xff\xfe", "text/plain"),
    "xml": binary(b"<a/>", "application/xml"),
    "soap": binary(b"<a/>", "application/soap+xml; charset=utf-8"),
    "image": binary(b"\x89PNG\r\n\x1a\n\0", "image/png"),
    "octets": binary(bytes(range(256)), "application/octet-stream"),
    "time with offset": binary(time="2018-04-05T17:31:00.123456+02:00"),
    "time in milliseconds": binary(time="2018-04-05T17:31:00.123Z"),
    "space quote percent": binary(subject='a b"c%d'),
    "example of percent encoding": binary(subject="Euro € 😀"),
    "line break and control": binary(subject="a\r\nb\t\x7f"),
    "punctuation": binary(subject="!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "combining and right to left": binary(subject="e\u0301 שלום"),
    "many extensions": binary(**{f"ext{number}": str(number) for number in range(12)}),
    "numbers and flags": binary(count="-5", flag="true", big="2147483647"),
    "empty extension": binary(ext=""),
    "key": keyed(b"customer-7"),
    "long attribute": binary(subject="x" * 300),
    "structured object": structured(data={"a": 1}, datacontenttype=JSON, subject="s"),
    "structured typed values": structured(count=5, flag=True, time="2018-04-05T17:31:00Z", data="text"),
    "structured base64": structured(data_base64="AAEC", datacontenttype="image/png"),
    "structured without data": structured(),
    "body is an amqp value": in_sections(section(AMQP_VALUE, "text")),
    "body is several data sections": in_sections(section(DATA, b"a"), section(DATA, b"b")),
}
"""Forty; each can be encoded by every binding."""

OTHERS: Final[dict[str, StoredRecord]] = {
    "batch": structured_record(b"[{}]", b"application/cloudevents-batch+json"),
    "avro": structured_record(b"\0\1", b"application/cloudevents+avro"),
    "body is a sequence": in_sections(section(AMQP_SEQUENCE, [1])),
    "nul": binary(subject="a\0b"),
    "too long for mqtt": binary(subject="ü" * 40_000),
}
"""What some of the bindings cannot carry."""

assert len(RECORDS) == 40
