"""The messages of client libraries that the bench sends: all decode, and larger ones are made as recorded."""

from __future__ import annotations

import pytest

from gateway.amqp.codec.codec import decode_all
from gateway.amqp.message.section_index import descriptor, walk
from gateway.amqp.message.sections import application_properties, body_values, header, message_annotations, properties
from tests.bench.__main__ import main
from tests.bench.load import messages as load_messages
from tests.bench.shapes import shapes

CLIENTS = (
    "proton-c", "proton-python", "jms", "rhea", "go-amqp", "fe2o3-amqp", "eventhub-pyamqp", "eventhub-uamqp",
)  # fmt: skip


def body(message: bytes) -> bytes:
    return message[walk(message).body :]


@pytest.mark.parametrize("name", shapes.recorded())
def test_every_recorded_message_decodes(name: str) -> None:
    message = shapes.recorded()[name]
    layout = walk(message)
    assert layout.body < layout.footer == layout.end == len(message)
    assert all(value is not None for value in body_values(message, layout))
    header(message, layout), message_annotations(message, layout)
    found = application_properties(message, layout)
    assert len(found) == {"properties-3": 3, "properties-20": 20}.get(name.partition("/")[2], len(found))
    at = layout.header
    while at < layout.end:  # every section is one described value, and nothing is between them
        _, start = descriptor(message, at)
        at = next(place for place in sorted({*layout, layout.end}) if place > at)
        decode_all(message[start:at])


def test_every_client_is_recorded_with_and_without_properties() -> None:
    assert {name.partition("/")[0] for name in shapes.names()} == set(CLIENTS)
    for client in CLIENTS:
        chosen = shapes.chosen(client)
        assert {f"{client}/properties-3", f"{client}/properties-20"} < set(chosen)
        assert len(shapes.messages(client, 100)) == len(chosen)
    assert sorted(shapes.chosen(shapes.MIX)) == sorted(shapes.names())


@pytest.mark.parametrize("name", [name for name in shapes.recorded() if name.endswith(shapes.LARGE)])
def test_a_body_is_made_larger_as_its_client_does(name: str) -> None:
    small = shapes.recorded()[name.removesuffix(shapes.LARGE)]
    assert body(shapes.resized(small, 1000)) == body(shapes.recorded()[name])
    assert shapes.resized(small, 100) == small


@pytest.mark.parametrize("name", shapes.names())
def test_requests_have_an_id_and_a_reply_to_and_are_otherwise_as_recorded(name: str) -> None:
    message = shapes.recorded()[name]
    first, second = shapes.requests(name, 100, "direct/answers", 2)
    for number, request in enumerate((first, second)):
        found, layout = properties(request, walk(request)), walk(request)
        assert found.reply_to == "direct/answers"
        assert found.message_id == f"{number:016x}"
        assert request[layout.app :] == shapes.resized(message, 100)[walk(message).app :]
        assert request[: layout.bare] == message[: walk(message).bare]
        read = load_messages.read_request(request)
        assert load_messages.text(read.reply_to) == "direct/answers"
        assert request[layout.app :] == read.after


def test_an_unknown_shape_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--shape", "proton-d"])
    assert "no shape 'proton-d'; there are synthetic, mix, proton-c/data" in capsys.readouterr().err
