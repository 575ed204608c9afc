"""`scopegate drain`: end a running gateway in order."""

from __future__ import annotations

import json
import time
from typing import Final

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import admin_command
from gateway.cli.common import fail

_LOOK: Final = 0.1


@admin_command
@click.option("--no-wait", is_flag=True, help="Do not wait until the gateway has ended.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for the end.")
def drain(client: AdminClient, output: str, no_wait: bool, timeout: float) -> None:
    """End a running gateway in order, as SIGTERM does, and wait for its end.

    /readyz says 503 from then on; after gateway.drain_delay no credit is given, messages that were taken get their
    outcomes for up to gateway.drain, and the connections are closed.
    """
    found = client.change("POST", "/drain")
    if output == "json":
        click.echo(json.dumps(found))
    else:
        click.echo(f"draining: {found['unsettled']} unsettled")
    if not no_wait:
        _wait(client, time.monotonic() + timeout)


def _wait(client: AdminClient, deadline: float) -> None:
    while client.place.answers():
        if time.monotonic() > deadline:
            fail("the gateway has not ended yet")
        time.sleep(_LOOK)
