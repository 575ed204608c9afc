"""The rows about messages that C makes are those of the general form (decision 101)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.amqp.message import sections
from gateway.journal import _rows
from gateway.journal.message_rows import general_row, message_rows
from tests.bench.shapes import shapes
from tests.support.amqp.strategies import MESSAGES, TEXT, mutated
from tests.support.plugins.examples import examples

ADDRESSES = st.sampled_from(
    ["svc/a", "", 'a"b', "a\\b", "$temp/x", "a\n", "\x7f", "ß", "r" * 300, "r./" * 341, "r./" * 342]
)
SECRETS = st.sampled_from(["%24temp%2Fx", "a?SIG=x", "a?sig%3Dx", "key/EYJhbGciOiJI.x", "core." + "AQED" * 10])
FIELDS = st.none() | ADDRESSES | SECRETS | TEXT | st.binary(max_size=3)
ADDRESSED = st.builds(
    lambda before, to, reply_to, more: before
    + sections.section(sections.PROPERTIES, [None, b"u", to, None, reply_to, *more])
    + b"\x00\x53\x75\xa0\x01x",
    st.sampled_from([b"", b"\x00\x53\x70\x45", b"\x00\x53\x71\xc1\x0c\x02\xa3\x09response-\x40"]),
    FIELDS,
    FIELDS,
    st.lists(st.none(), max_size=2),
)
USUAL = ADDRESSED | MESSAGES | st.sampled_from(list(shapes.recorded().values()))
ANY = USUAL | mutated(USUAL) | st.binary(max_size=8)
BEGUN = st.sampled_from(['{"v":1,"user":"app"', '{"v":1,"user":"\udcff"', '{"v":1,"user":"ß"'])


@settings(max_examples=examples(1500), deadline=None)
@given(data=st.lists(ANY, max_size=3), settled=st.booleans(), begun=BEGUN, first=st.sampled_from([1, 9, 10, 2**31]))
@example(data=[b""], settled=False, begun="{", first=1)
def test_c_makes_the_rows_of_the_general_form(data: list[bytes], settled: bool, begun: str, first: int) -> None:
    messages: list[Any] = [(None, each, settled) for each in data]
    start, times = f'{begun},"seq":', ',"from_ms":5,"to_ms":5,"size":'
    made = message_rows(messages, begun, 5, first)
    assert made == [general_row(start, number, times, each) for number, each in enumerate(messages, first)]


def test_clients_messages_are_all_made_in_c() -> None:
    messages: list[Any] = [(None, each, False) for each in shapes.recorded().values()]
    made = _rows.message_rows(messages, b'{"seq":', b',"size":', 1)
    assert [json.loads(row or "0") for row in made] == [
        {"seq": number, "size": len(each[1]), "settled": False, "annotated": False, **_addressed(each[1])}
        for number, each in enumerate(messages, 1)
    ]


@pytest.mark.parametrize("address", ["core." + "AQED" * 9 + "AQE", "monkey/jay", "svc/" + "a" * 36])
def test_addresses_that_are_like_secrets_are_made_in_c(address: str) -> None:
    """What is not long enough for a token, and what has only some letters of what a web token begins with."""
    data = sections.section(sections.PROPERTIES, [None, None, address])
    found = _rows.message_rows([(None, data, False)], b'{"seq":', b',"size":', 1)
    assert [json.loads(row or "0")["message_to"] for row in found] == [address]


def test_messages_of_another_form_are_left_to_python() -> None:
    data = b"\x00\x53\x77\x40"
    others: list[Any] = [[None, data, False], (None, data), (None, bytearray(data), False), (None, data, 0), None]
    assert _rows.message_rows(others, b"", b"", 1) == [None] * len(others)


def test_wrong_arguments_are_refused() -> None:
    for arguments in (((), b"", "", 1), ((), b"", b"", -1), (1, b"", b"", 1)):
        with pytest.raises((TypeError, ValueError)):
            _rows.message_rows(*arguments)  # type: ignore[arg-type]


def _addressed(data: bytes) -> dict[str, str]:
    found = sections.properties(data, sections.walk(data))
    named = {"message_to": found.to, "message_reply_to": found.reply_to}
    return {name: value for name, value in named.items() if value is not None}
