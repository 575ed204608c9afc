"""Rows about messages, made in C (`_rows.c`)."""

from collections.abc import Sequence

from gateway.amqp.link.handlers import Transfer

def message_rows(messages: Sequence[Transfer], start: bytes, times: bytes, seq: int, /) -> list[bytes | None]: ...
