"""Which annotations a strict receiver may not ignore (AMQP 1.0 part 3, 3.2.10; CORE-1)."""

from __future__ import annotations

import pytest

from gateway.amqp.message.unknown_annotations import unknown_annotation
from gateway.errors import AmqpError
from tests.support.amqp.messages import message

KNOWN = frozenset((b"address-cookie",))


def numbered(code: int) -> bytes:
    """An annotations section with one entry: the ulong 7, null."""
    return bytes((0, 0x53, code)) + b"\xc1\x04\x02\x53\x07\x40"


@pytest.mark.row("CORE-1")
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (message(b"x"), None),
        (message(b"x", da={"x-opt-a": 1, "address-cookie": b"c"}, ma={"x-opt-b": 1}), None),
        (message(b"x", ma={"event-streams-group-key": "k"}), None),
        (message(b"x", da={"x-opt-a": 1, "foo": 1}), "delivery annotation key 'foo'"),
        (message(b"x", da={"x-foo": 1}), "delivery annotation key 'x-foo'"),
        (message(b"x", da={"x-opt": 1}), "delivery annotation key 'x-opt'"),
        (message(b"x", da={"event-streams-group-key": "k"}), "delivery annotation key 'event-streams-group-key'"),
        (message(b"x", ma={"address-cookie": b"c"}), "message annotation key 'address-cookie'"),
        (message(b"x", ma={"a" * 300: 1}), f"message annotation key {'a' * 100!r}"),
        (numbered(0x71) + message(b"x"), "delivery annotation key that is no symbol"),
        (numbered(0x72) + message(b"x"), "message annotation key that is no symbol"),
        (message(b"x") + b"\x00\x53\x78\xc1\x07\x02\xa3\x03foo\x40", "footer key 'foo'"),
        (message(b"x") + b"\x00\x53\x78\xc1\x0b\x02\xa3\x07x-opt-f\x40", None),
        (b"\xff", None),
    ],
)
def test_the_first_key_that_is_not_understood(data: bytes, found: str | None) -> None:
    assert unknown_annotation(data, KNOWN) == found


def test_what_is_too_long_is_not_searched() -> None:
    with pytest.raises(AmqpError, match="message annotation may have at most 65536 bytes") as caught:
        unknown_annotation(message(b"x", ma={"x-opt-a": "y" * 70_000}), KNOWN)
    assert caught.value.condition == "amqp:resource-limit-exceeded"


def test_no_more_than_a_thousand_keys_are_searched() -> None:
    """64 KiB of keys of a few bytes in each section took 8 ms for one message."""
    many = {f"x-opt-{number}": 1 for number in range(1001)}
    with pytest.raises(AmqpError, match="message annotations may have at most 1000 keys") as caught:
        unknown_annotation(message(b"x", ma=many), KNOWN)
    assert caught.value.condition == "amqp:resource-limit-exceeded"
    del many["x-opt-0"]
    assert unknown_annotation(message(b"x", ma=many), KNOWN) is None
