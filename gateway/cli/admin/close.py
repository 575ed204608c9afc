"""`scopegate close`: close connections or links of a running gateway."""

from __future__ import annotations

import json

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import admin_command


@admin_command
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", default="", help="A text for the peer and the log, up to 200 characters.")
def close(client: AdminClient, output: str, ids: tuple[str, ...], reason: str) -> None:
    """Close connections (17) or links (17.3), by the ids that the lists show.

    The peer gets amqp:connection:forced or amqp:link:detach-forced with the reason; most clients connect again. To keep
    somebody out, change the policy.
    """
    query = {"reason": reason} if reason else {}
    for each in ids:
        found = client.change("DELETE", f"/{'links' if '.' in each else 'connections'}/{each}", query)
        click.echo(json.dumps(found) if output == "json" else f"closed {found['closed']}")
