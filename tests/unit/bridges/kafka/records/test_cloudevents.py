"""CloudEvents through Kafka: both ways of both bindings (KM-13)."""

from __future__ import annotations

from typing import Any

import pytest

from bridges.kafka.records.mapping import from_record, to_record
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message import sections
from gateway.errors import AmqpError

DATA = b"\x00\x53\x75\xa0\x02{}"
REQUIRED = {"specversion": "1.0", "id": "a-1", "source": "/orders", "type": "order.made"}
TIME = 1_790_000_000_123
STAMP = b"2026-09-21T14:13:20.123Z"


def message(prefix: str, content_type: str | None = None, body: bytes = DATA, **more: Any) -> bytes:
    values = {prefix + name: value for name, value in (REQUIRED | more).items()}
    head = b"" if content_type is None else sections.section(sections.PROPERTIES, [None] * 6 + [Symbol(content_type)])
    return head + sections.section(sections.APPLICATION_PROPERTIES, values) + body


def record(data: bytes, mode: str = "auto") -> Any:
    return to_record(data, sections.walk(data), mode=mode)


def read(found: Any, *, exact: bool = True) -> dict[str, Any]:
    headers = found.headers if exact else [item for item in found.headers if item[0] != "amqp.bare"]
    header, rest = from_record(found.key, found.value, headers)
    data = header + rest
    layout = sections.walk(data)
    return {"data": data, "app": sections.application_properties(data, layout), "layout": layout}


@pytest.mark.parametrize("prefix", ["cloudEvents:", "cloudEvents_"])
def test_binary_mode_is_that_of_kafkas_binding(prefix: str) -> None:
    data = message(prefix, "application/json", time=Timestamp(TIME), blob=b"\x00\xff", yes=True, n=5)
    found = record(data)
    headers = dict(found.headers)
    assert found.value == b"{}"
    assert {name: headers[f"ce_{name}"].decode() for name in REQUIRED} == REQUIRED
    assert (headers["ce_time"], headers["ce_blob"], headers["ce_yes"], headers["ce_n"]) == (
        STAMP,
        b"AP8=",
        b"true",
        b"5",
    )
    assert headers["content-type"] == b"application/json"
    assert not any(name.startswith("cloudEvents") for name in headers)
    assert read(found)["data"] == data, "and comes back byte by byte"


def test_records_of_others_come_in_amqps_binding() -> None:
    headers: list[Any] = [(f"ce_{name}", text.encode()) for name, text in REQUIRED.items()]
    headers += [("ce_time", STAMP), ("content-type", b"application/json"), ("trace", b"t")]
    header, rest = from_record(None, b"{}", headers)
    data = header + rest
    layout = sections.walk(data)
    app = sections.application_properties(data, layout)
    assert {name: app[f"cloudEvents:{name}"] for name in REQUIRED} == REQUIRED
    assert app["cloudEvents:time"] == Timestamp(TIME)
    assert type(app["cloudEvents:time"]) is Timestamp
    assert app["trace"] == "t"
    assert sections.properties(data, layout).content_type == "application/json"


@pytest.mark.parametrize("text", [b"2026-09-21T14:13:20.123456Z", b"2026-09-21T14:13:20", b"soon", b"\xff"])
def test_a_time_that_amqps_type_cannot_say_stays_as_it_is(text: bytes) -> None:
    headers: list[Any] = [("ce_specversion", b"1.0"), ("ce_time", text)]
    _, rest = from_record(None, b"", headers)
    value = sections.application_properties(rest, sections.walk(rest))["cloudEvents:time"]
    assert value == (text if text == b"\xff" else text.decode())


def test_without_the_exact_copy_the_readable_form_is_the_same_event() -> None:
    found = read(record(message("cloudEvents_", time=Timestamp(TIME))), exact=False)
    assert {name: found["app"][f"cloudEvents:{name}"] for name in REQUIRED} == REQUIRED
    assert found["app"]["cloudEvents:time"] == Timestamp(TIME)


@pytest.mark.parametrize("media", ["application/cloudevents+json", "Application/CloudEvents+JSON"])
def test_structured_mode_stays_as_it_is(media: str) -> None:
    body = sections.section(sections.DATA, b'{"specversion": "1.0"}')
    data = sections.section(sections.PROPERTIES, [None] * 6 + [Symbol(media)]) + body
    for mode in ("auto", "cloudevents"):
        found = record(data, mode)
        assert found.value == b'{"specversion": "1.0"}'
        assert dict(found.headers)["content-type"] == media.encode()
        assert read(found)["data"] == data


@pytest.mark.parametrize("missing", list(REQUIRED))
def test_mode_cloudevents_rejects_what_lacks_an_attribute(missing: str) -> None:
    values = {f"cloudEvents:{name}": value for name, value in REQUIRED.items() if name != missing}
    data = sections.section(sections.APPLICATION_PROPERTIES, values) + DATA
    with pytest.raises(AmqpError, match="only CloudEvents"):
        record(data, "cloudevents")
    assert record(data).value == b"{}", "mode auto takes it as any message"
    assert not any(name.startswith("ce_") for name, _ in record(data).headers)
