"""The C code that finds sections: what it takes, what it leaves to Python, and that it refuses wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.amqp import _sections
from gateway.amqp.layout import Layout, walk
from gateway.amqp.sections import Layout as Exported


def _properties(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return b"\x00\x53\x73\xc0%c%c%b" % (len(content) + 1, len(fields), content)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _sections.bind(Layout),  # type: ignore[call-arg]
        lambda: _sections.bind(int, bytes(256)),  # type: ignore[arg-type]
        lambda: _sections.bind(Layout, b"short"),
        lambda: _sections.field(b"", 0),  # type: ignore[call-arg]
        lambda: _sections.field(b"", 0, "1"),  # type: ignore[arg-type]
        lambda: _sections.fields(b""),  # type: ignore[call-arg]
    ],
)
def test_what_is_no_argument_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()
    assert walk(b"\x00\x53\x75\xa0\x01x").end == 6, "the class and the widths are still bound"


def test_usual_messages_are_taken() -> None:
    head = _properties(b"\xa1\x03one", b"\x40", b"\xa1\x02to")
    data = b"\x00\x53\x70\xc0\x02\x01\x41" + head + b"\x00\x53\x77\xb1\x00\x00\x00\x01x"
    start, body = 7, 7 + len(head)
    found = _sections.layout(data)
    assert type(found) is Exported
    assert found == (0, start, start, start, start, body, body, len(data), len(data))
    assert [_sections.field(data, start, index) for index in range(4)] == [b"\xa1\x03one", None, b"\xa1\x02to", None]
    assert _sections.fields(data, start) == ([b"\xa1\x03one", b"\x40", b"\xa1\x02to", *[b"\x40"] * 3], b"", 3)


def test_fields_after_the_sixth_stay_one_piece() -> None:
    head = _properties(*[b"\x40"] * 6, b"\xa3\x01t", b"\x40")
    assert _sections.fields(head, 0) == ([b"\x40"] * 6, b"\xa3\x01t\x40", 8)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x00\x53\x75\xa0\x05x",
        b"\x00\x53\x75\xb0\xff\xff\xff\xffx",
        b"\x00\x53\x75\xb0\x00\x00",
        b"\x00\x53\x75\xa0\x00" * 2,
        b"\x00\x53\x77\xa0\x00\x00\x53\x73\xc0\x01\x00",
        b"\x00\x53\x73\x45",
        b"\x00\x53\x6f\xc0\x01\x00",
        b"\x00\x53\x79\xc0\x01\x00",
        b"\x00\x53\x75\xc0\x01\x00",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x00",
        bytearray(b"\x00\x53\x75\xa0\x00"),
    ],
)
def test_what_is_unusual_is_left_to_who_knows_every_form(data: bytes) -> None:
    assert _sections.layout(data) is ...


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (b"", 0),
        (_properties(b"\x40"), -1),
        (_properties(b"\x40"), 1),
        (_properties(b"\x40"), 1 << 80),
        (_properties(b"\xa1\x05cut"), 0),
        (_properties(b"\xa1"), 0),
        (_properties(b"\x80\x00"), 0),
        (_properties(b"\x00\x53\x01\x40"), 0),
        (_properties(b"\xb1\x00\x00\x00\x01x"), 0),
        (b"\x00\x53\x73\xc0\x00\x00", 0),
        (b"\x00\x53\x73\xc0\x09\x01\x40", 0),
        (b"\x00\x53\x73\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40", 0),
    ],
)
def test_properties_in_another_form_or_broken_are_left_too(data: bytes, start: int) -> None:
    assert _sections.field(data, start, 0) is ...
    assert _sections.fields(data, start) is ...


def test_bytes_behind_the_last_field_are_no_usual_section() -> None:
    assert _sections.fields(b"\x00\x53\x73\xc0\x03\x01\x40\x40", 0) is ...
    assert _sections.field(b"\x00\x53\x73\xc0\x02\x01\x40", 0, -1) is ...
