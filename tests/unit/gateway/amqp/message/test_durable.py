"""The header of messages that containers shall keep."""

from __future__ import annotations

import pytest

from gateway.amqp.codec.codec import Ubyte, Uint
from gateway.amqp.codec.types import ValueList
from gateway.amqp.message.durable import durable
from gateway.amqp.message.sections import DATA, HEADER, MESSAGE_ANNOTATIONS, section

REST = section(MESSAGE_ANNOTATIONS, {}) + section(DATA, b"x")
REST_FIELDS: ValueList = [Ubyte(7), Uint(1000), True, Uint(3)]


@pytest.mark.parametrize("fields", [None, [], [None], [False], [False, *REST_FIELDS], [None, *REST_FIELDS]])
def test_only_the_first_field_changes(fields: ValueList | None) -> None:
    data = REST if fields is None else section(HEADER, fields) + REST
    assert durable(data) == section(HEADER, [True, *(fields or [])[1:]]) + REST


def test_a_durable_message_stays_as_it_is() -> None:
    data = b"\x00\x80" + bytes(7) + b"\x70" + b"\xd0" + (6).to_bytes(4) + (1).to_bytes(4) + b"\x56\x01" + REST
    assert durable(data) is data


def test_a_malformed_message_stays_as_it_is() -> None:
    data = b"\x00\x53\x70\xc0"
    assert durable(data) is data
