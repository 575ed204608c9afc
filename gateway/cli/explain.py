"""`scopegate explain`: what the gateway would answer to a client, and the lines of the policy that decide it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import click

from gateway.cli.common import FILE, load_policy

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy


class PolicyAnswer(Protocol):
    """The answer to a client, for people (`str()`) and for programs."""

    @property
    def allowed(self) -> bool:
        """Whether the client is allowed to do it."""

    def as_dict(self) -> dict[str, object]:
        """The same as plain data."""


@click.command(epilog="Exit codes: 0 allowed; 1 refused, or a mistake in the file.")
@FILE
@click.option("--scope", required=True, help="The scope whose listener the client is connected to.")
@click.option("--user", default="anonymous", show_default=True, help="The user.")
@click.option("--address", help="The address of the link.")
@click.option("--send", is_flag=True, help="The client sends to the address.")
@click.option("--receive", is_flag=True, help="The client receives from the address.")
@click.option("--info", is_flag=True, help="The client reads the $info of the address.")
@click.option(
    "--subscribe",
    "proposal",
    type=click.File("rb"),
    help="The user creates the CloudEvents subscription in this file (JSON; - for standard input).",
)
@click.option("--manager", help="The subscription manager, where the scope has several.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(
    file: Path,
    scope: str,
    user: str,
    address: str | None,
    proposal: BinaryIO | None,
    manager: str | None,
    as_json: bool,
    **actions: bool,
) -> None:
    """Show what the gateway would answer to a client, and which lines of the policy decide it.

    Needs none of the policy's secrets.
    """
    named = [action for action, given in actions.items() if given]
    if len(named) + (proposal is not None) != 1:
        raise click.UsageError("name one action of the client: --send, --receive, --info or --subscribe FILE")
    action = named[0] if named else None
    if (address is None) != (action is None):
        raise click.UsageError("--send, --receive and --info need --address; --subscribe takes none")
    policy = load_policy(file, with_secrets=False)
    if scope not in policy.scopes:
        raise click.UsageError(f"there is no scope {scope} in {file} (there is: {', '.join(policy.scopes)})")
    answer: PolicyAnswer
    if proposal is not None:
        answer = _subscription(policy, scope, manager, user, proposal.read())
    else:
        from policies.explain.explanation import explain as explained

        answer = explained(policy, scope, user, address, action)  # type: ignore[arg-type]
    click.echo(json.dumps(answer.as_dict()) if as_json else str(answer))
    sys.exit(0 if answer.allowed else 1)


def _subscription(policy: CompiledPolicy, scope: str, manager: str | None, user: str, body: bytes) -> PolicyAnswer:
    from gateway.server.composition import explain_subscription
    from policies.subscriptions import manager_rules

    managers = {rules.name: rules for rules in manager_rules(policy) if rules.scope == scope}
    name = manager or next(iter(managers), "")
    if name not in managers or (manager is None and len(managers) > 1):
        known = ", ".join(managers) or "none"
        raise click.UsageError(f"name a subscription manager of scope {scope} with --manager (there is: {known})")
    return explain_subscription(managers[name], user, body)
