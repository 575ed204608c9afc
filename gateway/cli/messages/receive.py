"""`scopegate receive`: print messages of an address of any AMQP 1.0 server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from gateway.cli.common import fail
from gateway.cli.messages import output as out
from gateway.cli.messages.connection import ServerOptions, connected, server_options
from gateway.cli.messages.progress import MessageCount
from gateway.cli.messages.streams import StreamOptions

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import Transfer
    from gateway.client.blocking import BlockingClient
    from gateway.client.settling import SettlingReceiver

_WINDOW: Final = 1000
_FOREVER: Final = 3600.0


@click.command(epilog="Exit codes: 0 done; 1 the server refused, or there were fewer messages than --count (reported "
               "on stderr); 2 incorrect use of the command line.")  # fmt: skip
@server_options
@click.argument("address")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--follow", is_flag=True, help="Wait for further messages, until --count or Ctrl-C.")
@click.option("--wait", "seconds", type=click.FloatRange(min=0), default=0.0,
              help="Stop when none came for this many seconds.  [default: when the server has no more]")  # fmt: skip
@click.option("--release", is_flag=True, help="Give the messages back (released) instead of accepting them.")
@click.option("--filter", "sql", help="AMQP filter expression in SQL, such as \"properties.subject = 'red'\".")
@click.option("--selector", help="JMS selector, such as \"color = 'red' AND n > 5\".")
@click.option("--from", "start", help="Event streams: earliest, latest, an offset, or a time (ISO 8601).  [default: "
              "what is appended from now on]")  # fmt: skip
@click.option("--partition", help="Event streams: this partition only.")
@click.option("--group", help="Event streams: join this consumer group; accepted events move its position.")
@click.option("--epoch", type=click.IntRange(min=0), help="Event streams: precedence within the group.")
@out.OUTPUT
@out.TYPES
@click.option("--quiet", is_flag=True, help="Print no summary.")
def receive(
    server: ServerOptions, address: str, count: int | None, follow: bool, seconds: float, release: bool,
    sql: str | None, selector: str | None, start: str | None, partition: str | None, group: str | None,
    epoch: int | None, output: str, typed: bool, quiet: bool,
) -> None:  # fmt: skip
    """Print messages of ADDRESS at URL (amqp://host:port or amqps://host:port) and accept them.

    A message is accepted after it was written to standard output.

    \b
    scopegate receive amqp://localhost orders --from earliest
    scopegate receive amqp://localhost orders --follow -o json | jq .properties
    """
    source = StreamOptions(partition, group, epoch, start, sql, selector)
    if typed and output != "json":
        raise click.UsageError("--types belongs to -o json")
    wait = _FOREVER if follow else seconds
    progress = MessageCount("received", count)
    with connected(server) as client, progress:
        receiver = _attach(client, address, source)
        _receive_all(receiver, count, wait, follow, release, out.printer(output, typed), progress)
    _end(progress, count, quiet)


def _end(progress: MessageCount, count: int | None, quiet: bool) -> None:
    if count is not None and progress.count < count:
        fail(f"{progress.summary()}; --count is {count}")
    if not quiet:
        click.echo(progress.summary(), err=True)


def _attach(client: BlockingClient, address: str, source: StreamOptions) -> SettlingReceiver:
    from gateway.amqp.proton.proton_data import AttachReply

    filters = source.filters()
    receiver = client.settling_receiver(AttachReply(address, properties=source.properties(), filter=filters))
    missing = set(map(str, filters or ())) - set(map(str, receiver.link.source.filter or ()))
    if missing:  # without it, the server would send other messages, too (AMQP 3.5.3)
        fail(f"{address}: the server does not apply the {min(missing)}")
    return receiver


def _receive_all(
    receiver: SettlingReceiver, count: int | None, wait: float, follow: bool, release: bool, show: out.Printer,
    progress: MessageCount,
) -> None:  # fmt: skip
    while count is None or progress.count < count:
        most = _WINDOW if count is None else min(_WINDOW, count - progress.count)
        found = receiver.take(most, wait) if wait else receiver.rest(most)
        if not found and not follow:
            break
        _print(found, show, progress)
        progress.add(len(found))  # before the sender hears of it: who interrupts then is told of all
        _settle(receiver, found, release)


def _print(found: list[Transfer], show: out.Printer, progress: MessageCount) -> None:
    progress.clear()
    try:
        for _, data, _ in found:
            show(data)
        out.flush()
    except BrokenPipeError:  # the reader of the pipe, such as head, has enough: what it did not get is not accepted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _settle(receiver: SettlingReceiver, found: list[Transfer], release: bool) -> None:
    from gateway.amqp.link.outcomes import RELEASED

    if release:
        receiver.settle(found, RELEASED)
    else:
        receiver.accept(found)
    receiver.flush()
