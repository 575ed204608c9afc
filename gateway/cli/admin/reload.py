"""`scopegate reload`: have a running gateway read its policy again, and wait for the result."""

from __future__ import annotations

import json
import sys

import click

from gateway.cli.admin.client import AdminClient, Item
from gateway.cli.admin.options import admin_command
from gateway.cli.common import fail
from gateway.plural import counted


@admin_command
@click.option("--check", is_flag=True, help="Only find the mistakes of the file as it is now; change nothing.")
def reload(client: AdminClient, output: str, check: bool) -> None:
    """Read the policy of a running gateway again, and wait until it is in force.

    If the file, or one that it names, has mistakes, all of them are printed, and the policy in force stays.
    """
    status, found = client.ask("POST", "/check" if check else "/reload")
    if output == "json":
        click.echo(json.dumps(found, ensure_ascii=False))
    elif status >= 400:
        _print_problems(found)
    elif check:
        for warning in found["warnings"]:
            click.echo(f"warning: {warning}", err=True)
        click.echo("ok: a reload would accept the policy")
    else:
        links, logins = found["links_closed"], found["logins_revoked"]
        closed = f"{counted(links, 'link')} closed, {counted(logins, 'login')} revoked"
        click.echo(f"reloaded: digest {found['digest']}, {closed}")
    sys.exit(1 if status >= 400 else 0)


def _print_problems(found: Item) -> None:
    if (problems := found.get("problems")) is None:  # nothing was checked
        fail(str(found.get("message", "no answer")))
    for problem in problems:
        click.echo(problem, err=True)
    click.echo(f"{counted(len(problems), 'mistake')}: the policy in force stays", err=True)
