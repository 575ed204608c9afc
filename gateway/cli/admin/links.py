"""`scopegate links`: the links of a running gateway."""

from __future__ import annotations

from typing import Final

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import admin_command
from gateway.cli.admin.tables import ago, print_items

_COLUMNS: Final = {
    "id": "ID", "scope": "SCOPE", "user": "USER", "direction": "WAY", "address": "ADDRESS", "rule": "RULE",
    "credit": "CREDIT", "unsettled": "UNSETTLED", "transfers": "MESSAGES", "outcomes": "OUTCOMES", "waits": "WAITS",
}  # fmt: skip


@admin_command
@click.option("--scope", help="Only those of this scope.")
@click.option("--user", help="Only those of this user.")
@click.option("--rule", help="Only those that this address rule of the policy decided, given by its pattern.")
@click.option("--address", help="Only those at this address.")
@click.option("--connection", help="Only those of the connection with this id.")
@click.option("--direction", type=click.Choice(["in", "out"]), help="in: the client sends; out: it receives.")
@click.option("--starved", is_flag=True, help="Only those whose sender waits for credit.")
def links(client: AdminClient, output: str, starved: bool, **filters: str | None) -> None:
    """List the links of a running gateway, with their credit and what they have carried.

    WAITS says for how long a sender has had no credit and sent nothing.
    """
    query = {name: value for name, value in filters.items() if value is not None}
    items = client.pages("/links", query | ({"starved": "true"} if starved else {}))
    if output == "table":
        items = ({**each, "waits": ago(each["waiting_since"])} for each in items)
    print_items(items, _COLUMNS, output, "no links")
