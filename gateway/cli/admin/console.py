"""`scopegate console`: the console of a running gateway for a browser on this machine."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import EPILOG, with_client
from gateway.cli.admin.proxy import ConsoleProxy
from gateway.cli.common import fail


@click.command(epilog=EPILOG)
@with_client
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of 127.0.0.1.  [default: a free one]")
def console(client: AdminClient, port: int) -> None:
    """Open the console of a running gateway for one browser on this machine, and print its address; Ctrl-C ends it.

    A port of the loopback interface passes the browser's requests on to the admin API, as the user of this command. The
    address has a token that works once.
    """
    session = client.get("/session")
    try:
        proxy = ConsoleProxy(client.place, port)
    except OSError as error:
        fail(f"127.0.0.1:{port}: {error.strerror}")
    click.echo(f"{proxy.url}")
    click.echo(f"for one browser, as {session['name']} ({session['role']}); Ctrl-C ends it", err=True)
    signal.signal(signal.SIGTERM, _ended)
    try:
        proxy.serve()
    except KeyboardInterrupt:
        click.echo("", err=True)


def _ended(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
