"""The C code that finds sections: what it takes, what it leaves to Python, and that it refuses wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.amqp.message import _sections
from gateway.amqp.message.section_index import SectionOffsets, walk
from gateway.amqp.message.sections import SectionOffsets as Exported


def _properties(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return b"\x00\x53\x73\xc0%c%c%b" % (len(content) + 1, len(fields), content)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _sections.bind(SectionOffsets),  # type: ignore[call-arg]
        lambda: _sections.bind(int, bytes(256)),  # type: ignore[arg-type]
        lambda: _sections.bind(SectionOffsets, b"short"),
        lambda: _sections.properties_field(b"", 0),  # type: ignore[call-arg]
        lambda: _sections.properties_field(b"", 0, "1"),  # type: ignore[arg-type]
        lambda: _sections.leading_fields(b""),  # type: ignore[call-arg]
        lambda: _sections.add_annotations(b""),  # type: ignore[call-arg]
        lambda: _sections.add_annotations(b"", []),  # type: ignore[arg-type]
        lambda: _sections.remove_annotations(b"", {}),  # type: ignore[call-arg]
        lambda: _sections.remove_annotations(b"", [], b"mark"),  # type: ignore[arg-type]
        lambda: _sections.remove_annotations(b"", {}, "mark"),  # type: ignore[arg-type]
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
    found = _sections.section_offsets(data)
    assert type(found) is Exported
    assert found == (0, start, start, start, start, body, body, len(data), len(data))
    assert [_sections.properties_field(data, start, index) for index in range(4)] == [
        b"\xa1\x03one",
        None,
        b"\xa1\x02to",
        None,
    ]
    assert _sections.leading_fields(data, start) == ([b"\xa1\x03one", b"\x40", b"\xa1\x02to", *[b"\x40"] * 3], b"", 3)


@pytest.mark.parametrize("body", [b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x76\xc0\x01\x00"])
def test_bodies_of_many_sections_are_usual(body: bytes) -> None:
    head = _properties(b"\x40")
    assert _sections.section_offsets(head + 5000 * body) == (
        0,
        0,
        0,
        0,
        0,
        *[len(head)] * 2,
        *[len(head + 5000 * body)] * 2,
    )


def test_fields_after_the_sixth_stay_one_piece() -> None:
    head = _properties(*[b"\x40"] * 6, b"\xa3\x01t", b"\x40")
    assert _sections.leading_fields(head, 0) == ([b"\x40"] * 6, b"\xa3\x01t\x40", 8)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x00\x53\x75\xa0\x05x",
        b"\x00\x53\x75\xb0\xff\xff\xff\xffx",
        b"\x00\x53\x75\xb0\x00\x00",
        b"\x00\x53\x75\xa0\x00\x00\x53\x76\xc0\x01\x00",
        b"\x00\x53\x77\xa0\x00" * 2,
        b"\x00\x53\x78\xc1\x01\x00" * 2,
        b"\x00\x53\x75\xa0\x00" * 10_001,
        b"\x00\x53\x77\xa0\x00\x00\x53\x73\xc0\x01\x00",
        b"\x00\x53\x73\x44",
        b"\x00\x53\x74\x45",
        b"\x00\x53\x77" + b"\x00" * 40,
        b"\x00\x53\x77\x00\x53\x01",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x01\x75\xa0\x00",
        b"\x00\x81\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x00",
        b"\x00\xa3\x10amqp:data:binarx\xa0\x00",
        b"\x00\xb3\x00\x00\x00\x20amqp:data:binary\xa0\x00",
        b"\x00\x53\x6f\xc0\x01\x00",
        b"\x00\x53\x79\xc0\x01\x00",
        b"\x00\x53\x75\xc0\x01\x00",
        bytearray(b"\x00\x53\x75\xa0\x00"),
    ],
)
def test_what_is_malformed_is_left_to_who_says_why(data: bytes) -> None:
    assert _sections.section_offsets(data) is ...


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
        (_properties(b"\x00\x53\x01"), 0),
        (_properties(b"\xb1\x00\x00\x00\x02x"), 0),
        (b"\x00\x53\x73\xc0\x00\x00", 0),
        (b"\x00\x53\x73\xc0\x09\x01\x40", 0),
        (b"\x00\x53\x73\xd0\x00\x00\x00\x03\x00\x00\x00", 0),
        (b"\x00\x53\x73\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40", 0),
        (b"\x00\x53\x74\xc1\x01\x00", 0),
    ],
)
def test_broken_properties_are_left_too(data: bytes, start: int) -> None:
    assert _sections.properties_field(data, start, 0) is ...
    assert _sections.leading_fields(data, start) is ...


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x53\x73\x45",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xc0\x02\x01\x40",
        b"\x00\xa3\x14amqp:properties:list\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40",
        b"\x00\xb3\x00\x00\x00\x14amqp:properties:list\xc0\x01\x00",
    ],
)
def test_properties_are_read_in_every_form(data: bytes) -> None:
    assert _sections.section_offsets(data) == (0, 0, 0, 0, 0, *[len(data)] * 4)
    assert _sections.properties_field(data, 0, 0) is None
    found = _sections.leading_fields(data, 0)
    assert found is not ...
    assert found[:2] == ([b"\x40"] * 6, b"")


def test_bytes_behind_the_last_field_are_no_usual_section() -> None:
    assert _sections.leading_fields(b"\x00\x53\x73\xc0\x03\x01\x40\x40", 0) is ...
    assert _sections.properties_field(b"\x00\x53\x73\xc0\x02\x01\x40", 0, -1) is ...


@pytest.mark.parametrize(
    "wrong",
    [
        {0: bytearray(b"data")},
        {1: (0, 0, 0)},
        {1: (0, 2, 1, 2, 2, 2, 4, 4, 4)},
        {1: (0, 0, 0, 0, 0, 5, 4, 4, 4)},
        {1: (0, -1, 0, 0, 0, 0, 4, 4, 4)},
        {1: (0, 0, 0, 0, 0, 1 << 80, 4, 4, 4)},
        {1: (0, "0", 0, 0, 0, 0, 4, 4, 4)},
        {2: "text"},
        {3: ([b"\x40"] * 6, b"")},
        {3: ([b"\x40"] * 5, b"", 5)},
        {3: ([b"\x40"] * 5 + ["x"], b"", 6)},
        {3: ([b"\x40"] * 5 + [b""], b"", 6)},
        {3: ([b"\x40"] * 6, "", 6)},
        {3: ([b"\x40"] * 6, b"", -1)},
        {3: ([b"\x40"] * 6, b"", 256)},
    ],
)
def test_what_cannot_be_put_together_is_left_too(wrong: dict[int, Any]) -> None:
    whole: list[Any] = [b"data", (0, 0, 0, 0, 0, 0, 4, 4, 4), b"", ([b"\x40"] * 6, b"", 6)]
    assert _sections.assemble(*whole) == _properties(*[b"\x40"] * 6) + b"data"
    assert _sections.assemble(*[wrong.get(index, each) for index, each in enumerate(whole)]) is ...


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((b"", b"", b""), TypeError),
        (("", b"", b"", 0), TypeError),
        ((b"", bytearray(), b"", 0), TypeError),
        ((b"", b"", None, 0), TypeError),
        ((b"", b"", b"", "0"), TypeError),
        ((b"", b"", b"mac", 4), ValueError),
        ((b"", b"", b"mac", -1), ValueError),
    ],
)
def test_a_token_is_bytes(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        _sections.encode_token_string(*arguments)


_HEADER, _BODY = b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x75\xa0\x01x"
_ONE, _TWO = b"\x00\x53\x71\xc1\x01\x00", b"\x00\x53\x71\xd1\x00\x00\x00\x04\x00\x00\x00\x00"
_KNOWN = object()
_ASKS = _properties(*[b"\x40"] * 4, b"\xa1\x03her")


@pytest.mark.parametrize("head", [b"", _HEADER])
def test_a_message_is_annotated_by_its_reply_to(head: bytes) -> None:
    known = {b"\xa1\x03her": _ONE, b"\x40": _TWO}
    asks, others = head + _ASKS + _BODY, [head + _BODY, head + _properties(b"\x40") + _BODY]
    assert _sections.add_annotations(asks, known) == head + _ONE + _ASKS + _BODY
    assert [_sections.add_annotations(each, known) for each in others] == [
        head + _TWO + each[len(head) :] for each in others
    ]
    assert _sections.add_annotations(asks, {b"\x40": _TWO}) is ...
    assert _sections.add_annotations(head + _ONE + _ASKS + _BODY, known) is ..., "it has annotations already"
    assert _sections.add_annotations(bytearray(asks), known) is ...  # type: ignore[arg-type]  # not immutable
    assert _sections.add_annotations(asks, {b"\xa1\x03her": "text"}) is ...  # type: ignore[dict-item]


@pytest.mark.parametrize("head", [b"", _HEADER])
def test_known_annotations_are_taken_off(head: bytes) -> None:
    answer = _properties(b"\x40", b"\x40", b"\xa1\x07a marks")
    for behind, mark, onward in (
        (answer, b"mark", True),
        (answer, b"marked", False),
        (answer, b"a markss", False),
        (answer, b"", True),
        (_ASKS, b"mark", True),
        (b"", b"mark", False),
        (b"", b"x", False),
    ):
        found = _sections.remove_annotations(head + _ONE + behind + _BODY, {_ONE: _KNOWN}, mark)
        assert found == (_KNOWN, head + behind + _BODY, onward)
    assert _sections.remove_annotations(head + _TWO + _BODY, {_ONE: 1}, b"mark") is ...
    assert _sections.remove_annotations(head + _BODY, {b"": 1}, b"mark") is ..., "it has none"


def test_a_reply_to_is_found_in_a_wide_list_and_a_broken_one_is_left_to_python() -> None:
    broken = _properties(*[b"\x40"] * 4, b"\xa1\x09her")
    wide = b"\x00\x53\x73\xd0\x00\x00\x00\x0d\x00\x00\x00\x05\x40\x40\x40\x40\xa1\x03her"
    assert _sections.add_annotations(wide + _BODY, {b"\xa1\x03her": _ONE}) == _ONE + wide + _BODY
    assert _sections.add_annotations(broken + _BODY, {b"\xa1\x03her": _ONE}) is ...
    assert _sections.remove_annotations(_ONE + broken + _BODY, {_ONE: 1}, b"mark") is ...
