"""`scopegate connections`: the connections of a running gateway."""

from __future__ import annotations

from typing import Final

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import admin_command
from gateway.cli.admin.tables import ago, print_items

_COLUMNS: Final = {
    "id": "ID", "state": "STATE", "scope": "SCOPE", "user": "USER", "peer": "PEER", "tls": "TLS", "links": "LINKS",
    "unsettled": "UNSETTLED", "bytes_in": "BYTES IN", "bytes_out": "BYTES OUT", "age": "AGE", "container": "CONTAINER",
}  # fmt: skip


@admin_command
@click.option("--scope", help="Only those of this scope.")
@click.option("--user", help="Only those of this user.")
def connections(client: AdminClient, output: str, scope: str | None, user: str | None) -> None:
    """List the connections of a running gateway, those of its connectors included."""
    query = {name: value for name, value in (("scope", scope), ("user", user)) if value is not None}
    items = client.pages("/connections", query)
    if output == "table":
        items = ({**each, "age": ago(each["since"])} for each in items)
    print_items(items, _COLUMNS, output, "no connections")
