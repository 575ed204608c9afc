"""`scopegate groups`: the owners of partitions in a consumer group, from a running gateway."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.options import EPILOG, with_client
from gateway.cli.admin.tables import print_items


@click.command(epilog=EPILOG)
@with_client
@click.option("--http", help="Ask at the address of the policy's gateway.http instead.")
@click.option("--scope", help="The scope that has the address.")
@click.option("--address", help="The address of the event log.")
@click.option("--group", help="The consumer group.")
@click.option(
    "--rebalance", is_flag=True, help="Rebalance the partitions: links that were assigned one are closed in an "
    "orderly way."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, like -o json.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="table for people, json "
    "for programs.")
def groups(
    client: AdminClient, http: str | None, scope: str | None, address: str | None, group: str | None, rebalance: bool,
    as_json: bool, output: str,
) -> None:
    """List the consumer groups with links of a gateway; or show the owners of the partitions of one, or rebalance it.

    One group is named by --scope, --address and --group. Any gateway that shares the state answers for all of them.
    """
    names = [scope, address, group]
    if not any(names) and not rebalance and http is None:
        _list(client, "json" if as_json else output)
        return
    if not all(names):
        raise click.UsageError("--scope, --address and --group are needed together")
    path = "/groups/rebalance" if rebalance else "/groups"
    query = {"scope": str(scope), "address": str(address), "group": str(group)}
    answer = _of_one(client, http, "POST" if rebalance else "GET", path, query)
    if as_json or output == "json":
        click.echo(json.dumps(answer))
    else:
        _print(answer)


def _list(client: AdminClient, output: str) -> None:
    columns = {"cluster": "CLUSTER", "topic": "TOPIC", "group": "GROUP", "held": "OWNED", "free": "FREE",
               "waiting": "WAITING", "sharing": "SHARING"}  # fmt: skip
    items = client.pages("/groups", {})
    if output == "table":
        items = ({**each, "held": len(each["owners"]), "free": len(each["free"])} for each in items)
    print_items(items, columns, output, "no groups")


def _of_one(client: AdminClient, http: str | None, method: str, path: str, query: dict[str, str]) -> dict[str, Any]:
    if http is not None:
        return _ask(http, method, path, query)
    return client.change(method, path, query)


def _print(answer: dict[str, Any]) -> None:
    for owner in answer["owners"]:
        where = "this gateway" if owner["here"] else f"gateway process {owner['process']}"
        click.echo(
            f"partition {owner['partition']}: owned through {where}, epoch {owner['epoch']}, "
            f"chosen by the {owner['chosen_by']}"
        )
    for partition in answer["free"]:
        click.echo(f"partition {partition}: free")
    click.echo(f"waiting: {answer['waiting']}")
    if (sharing := answer["sharing"]) > 0:
        click.echo(f"{sharing} link{'s share' if sharing > 1 else ' shares'} the partitions (group_mode: shared)")


def _ask(place: str, method: str, path: str, names: dict[str, str]) -> dict[str, Any]:
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode
    from urllib.request import Request

    from gateway.http.opener import direct

    request = Request(f"http://{place}{path}?{urlencode(names)}", method=method)
    try:
        with direct().open(request, timeout=10) as response:
            found: dict[str, Any] = json.load(response)
            return found
    except HTTPError as error:
        click.echo(json.loads(error.read() or b"{}").get("error", str(error)), err=True)
    except (URLError, OSError, ValueError) as error:
        click.echo(f"no answer from http://{place}: {getattr(error, 'reason', error)} (gateway.http)", err=True)
    sys.exit(1)
