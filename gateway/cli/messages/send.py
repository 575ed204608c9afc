"""`scopegate send`: send messages to an address of any AMQP 1.0 server and show their outcomes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gateway.cli.common import fail
from gateway.cli.messages import source
from gateway.cli.messages.connection import ServerOptions, connected, server_options
from gateway.cli.messages.message_options import MessageOptions, message_options
from gateway.cli.messages.progress import MessageCount
from gateway.cli.notation import MessageFileError

if TYPE_CHECKING:
    from gateway.client.blocking import BlockingClient
    from gateway.client.links import BlockingSender

_LOT: Final = 500
"""Messages that are sent before their outcomes are awaited."""


@click.command(epilog="Exit codes: 0 all messages were accepted; 1 the server refused, or a message was not accepted "
               "(reported on stderr); 2 incorrect use of the command line.")  # fmt: skip
@server_options
@click.argument("address")
@click.option("--body", help="Body of the message.  [default: a message for each line of standard input]")
@click.option("--file", "files", multiple=True, type=click.Path(path_type=Path, dir_okay=False),
              help="Send the content of a file as one message; repeatable.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True,
              help="Each line of standard input is a message as `receive -o json` prints it.")  # fmt: skip
@message_options
@click.option("--partition", help="Send to this partition of an event stream.")
@click.option("--count", type=click.IntRange(min=1), help="Send --body or --file this many times.  [default: 1]")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Send at most this many messages a second.")
@click.option("--quiet", is_flag=True, help="Print no summary.")
def send(
    server: ServerOptions, address: str, body: str | None, files: tuple[Path, ...], as_json: bool,
    message: MessageOptions, partition: str | None, count: int | None, rate: float | None, quiet: bool,
) -> None:  # fmt: skip
    """Send messages to ADDRESS at URL (amqp://host:port or amqps://host:port) and wait for their outcomes.

    \b
    scopegate send amqp://localhost orders --body hello --property n=5
    scopegate send amqp://localhost orders < lines.txt
    scopegate receive amqp://one orders -o json --types | scopegate send amqp://two orders --json
    """
    given = (body is not None) + bool(files)
    if given + as_json > 1:
        raise click.UsageError("--body, --file and --json exclude each other")
    if count is not None and not given:
        raise click.UsageError("--count repeats --body or --file; the lines of standard input are sent once")
    total = (count or 1) * max(len(files), 1) if given else None
    progress = MessageCount("sent", total)
    with connected(server) as client:
        batches = _batches(client, body, files, as_json, message, count or 1)
        with progress:
            _send_all(client, _sender(client, address, partition), batches, rate, progress)
    if not quiet:
        click.echo(progress.summary(), err=True)


def _sender(client: BlockingClient, address: str, partition: str | None) -> BlockingSender:
    from gateway.cli.messages.streams import partition_properties

    return client.sender(address, partition_properties(partition))


def _batches(
    client: BlockingClient, body: str | None, files: tuple[Path, ...], as_json: bool, message: MessageOptions,
    count: int,
) -> Iterator[list[bytes]]:  # fmt: skip
    """Encoded messages, in lots that are there at the same time."""
    if body is not None or files:
        bodies = [body.encode()] if body is not None else [source.read_file(file) for file in files]
        encoded = chain.from_iterable(repeat([_encoded(message, each) for each in bodies], count))
        return iter(lambda: list(islice(encoded, _LOT)), [])
    if sys.stdin.isatty():
        click.echo("a message for each line; Ctrl-D ends", err=True)
    lines = source.line_batches(sys.stdin.fileno(), client.wait_readable)
    return source.read_messages(lines) if as_json else ([_encoded(message, line) for line in lot] for lot in lines)


def _encoded(message: MessageOptions, body: bytes) -> bytes:
    try:
        return message.encoded(body)
    except MessageFileError as error:
        fail(str(error))


def _send_all(
    client: BlockingClient, sender: BlockingSender, batches: Iterator[list[bytes]], rate: float | None,
    progress: MessageCount,
) -> None:  # fmt: skip
    size = _LOT if rate is None else 1
    due = time.monotonic()
    for lot in (batch[at : at + size] for batch in batches for at in range(0, len(batch), size)):
        if rate is not None:
            due = max(due, time.monotonic() - 1)
            client.wait(lambda: False, max(due - time.monotonic(), 0))
            due += 1 / rate
        for outcome in sender.send(lot):
            source.check_accepted(outcome, f"message {progress.count + 1}")
            progress.add(1)
