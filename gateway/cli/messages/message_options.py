"""Options that describe a message, shared by `send` and `request`, and the messages that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final, NamedTuple

import click

from gateway.amqp.codec.types import Value
from gateway.cli import notation

Command = Callable[..., None]
_PROPERTIES: Final = ("subject", "reply-to", "message-id", "correlation-id", "content-type", "group-id", "to")
_RECORD_KEY: Final = "event-streams-group-key"


class MessageOptions(NamedTuple):
    """What the command line says about every message."""

    header: Mapping[str, Value]
    properties: Mapping[str, Value]
    application: Mapping[str, Value]
    annotations: Mapping[str, Value]
    as_text: bool

    def encoded(self, body: bytes, more: Mapping[str, Value] | None = None) -> bytes:
        """The message with this body; `more` are further fields of properties. Raises MessageFileError."""
        parts: dict[str, Value] = {
            "header": self.header,
            "message-annotations": self.annotations,
            "properties": {**self.properties, **(more or {})},
            "application-properties": self.application,
        }
        message = {name: dict(content) for name, content in parts.items() if content}
        return notation.encoded_message({**message, **self._body(body)}, "on the command line")

    def _body(self, body: bytes) -> dict[str, Value]:
        if not self.as_text:
            return {"data": body}
        try:
            return {"amqp-value": body.decode()}
        except UnicodeDecodeError:
            raise notation.MessageFileError("--text: the body is not UTF-8") from None


def message_options(command: Command) -> Command:
    """Add the options of a message; the command gets them as `message: MessageOptions`."""
    return reduce(lambda function, option: option(function), reversed(_OPTIONS), _gathered(command))


def _gathered(command: Command) -> Command:
    from functools import wraps

    @wraps(command)
    def gather(
        properties: tuple[str, ...], annotations: tuple[str, ...], record_key: str | None, durable: bool,
        ttl: int | None, priority: int | None, as_text: bool,
        **rest: object,
    ) -> None:  # fmt: skip
        given = {name: rest.pop(name.replace("-", "_")) for name in _PROPERTIES}
        header = {"durable": durable or None, "ttl": ttl, "priority": priority}
        message = MessageOptions(
            {name: value for name, value in header.items() if value is not None},
            {name: value for name, value in given.items() if value is not None},
            _entries("--property", properties),
            _entries("--annotation", annotations) | ({} if record_key is None else {_RECORD_KEY: record_key}),
            as_text,
        )
        try:
            message.encoded(b"")
        except notation.MessageFileError as error:
            raise click.UsageError(str(error)) from None
        command(message=message, **rest)

    return gather


def _entries(option: str, given: tuple[str, ...]) -> dict[str, Value]:
    """NAME=VALUE pairs; a value that is JSON is that value, any other is text. Raises click.UsageError."""
    found: dict[str, Value] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not (name and equals):
            raise click.UsageError(f"{option} {entry}: needs NAME=VALUE, such as color=red or n=5")
        found[name] = _value(value)
    return found


def _value(text: str) -> Value:
    """A number, true, false or null as JSON has it; any other text is itself, and so is a quoted one."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, dict | list) else found


_OPTIONS: Final = (
    click.option("--property", "properties", multiple=True, metavar="NAME=VALUE",
                 help="Application property, repeatable: color=red, n=5, flag=true, text='\"5\"'."),
    *(click.option(f"--{name}", help=f"Property {name} of the message.") for name in _PROPERTIES),
    click.option("--annotation", "annotations", multiple=True, metavar="NAME=VALUE",
                 help="Message annotation, repeatable: x-opt-color=red."),
    click.option("--record-key", help="Key of the Kafka record, if the address is a topic (annotation "
                 "event-streams-group-key)."),
    click.option("--durable", is_flag=True, help="Mark the message as durable."),
    click.option("--ttl", type=click.IntRange(min=0), help="Time to live in milliseconds."),
    click.option("--priority", type=click.IntRange(0, 255), help="Priority, 0 to 9 for most servers."),
    click.option("--text", "as_text", is_flag=True,
                 help="Send the body as a text value (a JMS TextMessage).  [default: a data section, which is the "
                      "value of a Kafka record as it is]"),
)  # fmt: skip
