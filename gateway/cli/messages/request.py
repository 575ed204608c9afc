"""`scopegate request`: send requests to an address of any AMQP 1.0 server and print their responses."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING, Final

import click

from gateway.amqp.link.outcomes import ACCEPTED
from gateway.cli.common import fail
from gateway.cli.messages import output as out
from gateway.cli.messages import source
from gateway.cli.messages.connection import ServerOptions, connected, server_options
from gateway.cli.messages.message_options import MessageOptions, message_options
from gateway.cli.messages.progress import MessageCount
from gateway.cli.notation import MessageFileError

if TYPE_CHECKING:
    from gateway.client.blocking import BlockingClient
    from gateway.client.links import BlockingSender
    from gateway.client.settling import SettlingReceiver

_WAIT: Final = 10.0


@click.command(epilog="Exit codes: 0 each request got its response; 1 the server refused, a request was not accepted, "
               "or no response came (reported on stderr); 2 incorrect use of the command line.")  # fmt: skip
@server_options
@click.argument("address")
@click.option("--body", help="Body of the request.  [default: standard input]")
@message_options
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send this many requests, one "
              "after the other, and print how long the responses took.")  # fmt: skip
@click.option("--wait", "seconds", type=click.FloatRange(min=0, min_open=True), default=_WAIT, show_default=True,
              help="Seconds to wait for each response.")  # fmt: skip
@out.OUTPUT
@out.TYPES
def request(
    server: ServerOptions, address: str, body: str | None, message: MessageOptions, count: int, seconds: float,
    output: str, typed: bool,
) -> None:  # fmt: skip
    """Send a request to ADDRESS at URL (amqp://host:port or amqps://host:port) and print the response.

    The response comes to a temporary address that the server creates, unless --reply-to names one.

    \b
    scopegate request amqp://localhost prices --body '{"item": 5}'
    """
    content = body.encode() if body is not None else sys.stdin.buffer.read()
    with connected(server) as client, MessageCount("answered", count) as progress:
        exchange = _Exchange(client, address, message, content, seconds)
        times = []
        for _ in range(count):
            began = time.monotonic()
            out_data = exchange.ask()
            times.append(time.monotonic() - began)
            out.printer(output, typed)(out_data)
            out.flush()
            progress.add(1)
    if count > 1:
        click.echo(f"{progress.summary()}; {_times(sorted(times))}", err=True)


class _Exchange:
    """A link for requests and one for their responses."""

    def __init__(
        self, client: BlockingClient, address: str, message: MessageOptions, body: bytes, seconds: float
    ) -> None:
        self._address, self._message, self._body, self._seconds = address, message, body, seconds
        reply_to = message.properties.get("reply-to")
        self._responses = _responses(client, reply_to)
        self._reply_to: Final = reply_to or self._responses.link.source.address
        self._requests: BlockingSender = client.sender(address)

    def ask(self) -> bytes:
        """Send a request; returns the response. A request without a response ends the command."""
        given = self._message.properties.get("message-id")
        name = given if given is not None else str(uuid.uuid4())
        try:
            data = self._message.encoded(self._body, {"reply-to": self._reply_to, "message-id": name})
        except MessageFileError as error:
            fail(str(error))
        self._responses.expect(1)
        self._requests.begin(data)  # a service may wait for the outcome of its response before it accepts the request
        return self._response(name, self._message.properties.get("correlation-id"))

    @property
    def _refused(self) -> bool:
        outcome = self._requests.outcome
        return outcome is not None and outcome is not ACCEPTED

    def _response(self, *names: object) -> bytes:
        """The next response that answers the request with one of these ids, or does not say which it answers."""
        until = time.monotonic() + self._seconds
        while True:
            found = self._responses.take(1, max(until - time.monotonic(), 0), lambda: self._refused)
            if self._requests.outcome is not None:
                source.check_accepted(self._requests.outcome, "the request")
            if not found:
                fail(f"{self._address}: no response came within {self._seconds:g} s")
            self._responses.accept(found)
            self._responses.flush()
            if _correlation(found[0][1]) in (None, *names):
                return found[0][1]


def _responses(client: BlockingClient, reply_to: str | None) -> SettlingReceiver:
    from gateway.amqp.proton.proton_data import AttachReply

    if reply_to is not None:
        return client.settling_receiver(AttachReply(reply_to))
    return client.settling_receiver(AttachReply(dynamic=True, capabilities=("temporary-queue",)))


def _correlation(data: bytes) -> object:
    from gateway.amqp.message import sections

    return sections.properties(data, sections.walk(data)).correlation_id


def _times(found: list[float]) -> str:
    """The spread of response times, sorted, in milliseconds."""
    ranks = {"min": 0.0, "p50": 0.5, "p99": 0.99, "max": 1.0}
    return ", ".join(f"{name} {found[int((len(found) - 1) * rank)] * 1000:.1f} ms" for name, rank in ranks.items())
