"""`scopegate groups`: the owners of partitions in a consumer group, from a running gateway."""

from __future__ import annotations

import json
import sys
from typing import Any

import click


@click.command(epilog="Exit codes: 0 done; 1 the gateway refused, or did not answer (reported on stderr).")
@click.option("--http", "place", default="127.0.0.1:8672", show_default=True, help="The address in the policy's "
    "gateway.http.")
@click.option("--scope", required=True, help="The scope that has the address.")
@click.option("--address", required=True, help="The address of the event log.")
@click.option("--group", required=True, help="The consumer group.")
@click.option(
    "--rebalance", is_flag=True, help="Rebalance the partitions: links that were assigned one are closed in an "
    "orderly way."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def groups(place: str, scope: str, address: str, group: str, rebalance: bool, as_json: bool) -> None:
    """Show the owners of a consumer group's partitions, or rebalance the group.

    Any gateway that shares the state answers for all of them. --rebalance is accepted only from the gateway's own
    machine.
    """
    answer = _ask(
        place, "POST" if rebalance else "GET", "/groups/rebalance" if rebalance else "/groups", scope, address, group
    )
    if as_json:
        click.echo(json.dumps(answer))
        return
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


def _ask(place: str, method: str, path: str, scope: str, address: str, group: str) -> dict[str, Any]:
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode
    from urllib.request import Request, urlopen

    query = urlencode({"scope": scope, "address": address, "group": group})
    request = Request(f"http://{place}{path}?{query}", method=method)
    try:
        with urlopen(request, timeout=10) as response:  # noqa: S310 (as above)
            found: dict[str, Any] = json.load(response)
            return found
    except HTTPError as error:
        click.echo(json.loads(error.read() or b"{}").get("error", str(error)), err=True)
    except (URLError, OSError, ValueError) as error:
        click.echo(f"no answer from http://{place}: {getattr(error, 'reason', error)} (gateway.http)", err=True)
    sys.exit(1)
