"""`scopegate explain`: what the gateway would answer to a client, and the lines of the policy that decide it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from gateway.cli.common import FILE, load_policy


@click.command(epilog="Exit codes: 0 allowed; 1 refused, or a mistake in the file.")
@FILE
@click.option("--scope", required=True, help="The scope whose listener the client is connected to.")
@click.option("--user", default="anonymous", show_default=True, help="The user.")
@click.option("--address", required=True, help="The address of the link.")
@click.option("--send", "action", flag_value="send", help="The client sends to the address.")
@click.option("--receive", "action", flag_value="receive", help="The client receives from the address.")
@click.option("--info", "action", flag_value="info", help="The client reads the $info of the address.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(file: Path, scope: str, user: str, address: str, action: str | None, as_json: bool) -> None:
    """Show what the gateway would answer to a client, and which lines of the policy decide it.

    Needs none of the policy's secrets.
    """
    from policies.explain.explanation import explain as explained

    if action not in ("send", "receive", "info"):
        raise click.UsageError("name the action of the client: --send, --receive or --info")
    policy = load_policy(file, with_secrets=False)
    if scope not in policy.scopes:
        raise click.UsageError(f"there is no scope {scope} in {file} (there is: {', '.join(policy.scopes)})")
    answer = explained(policy, scope, user, address, action)  # type: ignore[arg-type]
    click.echo(json.dumps(answer.as_dict()) if as_json else str(answer))
    sys.exit(0 if answer.allowed else 1)
