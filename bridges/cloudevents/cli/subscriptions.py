"""`scopegate subscriptions list | show | export | import | try`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, TypeVar

import click

from bridges.cloudevents.cli.api import PASSWORD, ApiRefused, Document, ManagerClient, fail, item
from bridges.cloudevents.cli.try_filter import attempt

F = TypeVar("F", bound=Callable[..., None])
_EXIT_CODES: Final = "Exit codes: 0 done; 1 the gateway refused, or did not answer (reported on stderr)."
_FORM: Final = 1


def _api(command: F) -> F:
    """The options that say which manager, and who asks."""
    for option in (
        click.option("--ca", type=click.Path(path_type=Path), help="Authorities of the API's certificate, PEM."),
        click.option("--user", help=f"The user; the password is in {PASSWORD}.  [default: no login]"),
        click.option(
            "--url", default="http://127.0.0.1:8080/subscriptions", show_default=True, help="The manager's collection."
        ),
    ):
        command = option(command)
    return command


@click.group()
def subscriptions() -> None:
    """Look at the subscriptions of a running gateway, keep them elsewhere, or try one on the events of a topic.

    What is listed is what the user sees: one's own, or those of everybody for the users of `manage`.
    """


@subscriptions.command("list", epilog=_EXIT_CODES)
@_api
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def list_command(url: str, user: str | None, ca: Path | None, as_json: bool) -> None:
    """List subscriptions: id, protocol, state and sink."""
    client = ManagerClient(url, user, ca)
    try:
        found = list(client.objects())
        if as_json:
            click.echo(json.dumps(found, ensure_ascii=False))
            return
        for each in found:
            state = client.request("GET", f"{item(each['id'])}/status")["state"]
            click.echo(f"{each['id']}  {each['protocol']}  {state}  {each['sink']}")
    except ApiRefused as refused:
        fail(str(refused))


@subscriptions.command(epilog=_EXIT_CODES)
@_api
@click.argument("id")
def show(url: str, user: str | None, ca: Path | None, id: str) -> None:
    """Show a subscription and its status, as JSON."""
    client = ManagerClient(url, user, ca)
    try:
        found = {"subscription": client.request("GET", item(id)), "status": client.request("GET", f"{item(id)}/status")}
    except ApiRefused as refused:
        fail(f"{id}: {refused}")
    click.echo(json.dumps(found, ensure_ascii=False, indent=2))


@subscriptions.command(epilog=_EXIT_CODES)
@_api
def export(url: str, user: str | None, ca: Path | None) -> None:
    """Write the objects of subscriptions to stdout, for `import`.

    Secrets are not among them: the API never returns any. Positions stay with the gateway.
    """
    try:
        found = list(ManagerClient(url, user, ca).objects())
    except ApiRefused as refused:
        fail(str(refused))
    click.echo(json.dumps({"form": _FORM, "subscriptions": found}, ensure_ascii=False, indent=2))


@subscriptions.command("import", epilog=_EXIT_CODES)
@_api
@click.argument("file", type=click.File("rb"))
@click.option("--replace", is_flag=True, help="Replace subscriptions that exist; their positions stay.")
@click.option("--dry", is_flag=True, help="Check the objects, and store nothing.")
def import_command(
    url: str, user: str | None, ca: Path | None, file: IO[bytes], replace: bool, dry: bool
) -> None:
    """Create the subscriptions of an export, as this user's; each that is refused is reported, and the rest is done."""
    client, refused = ManagerClient(url, user, ca), 0
    for each in _exported(file):
        try:
            _put(client, each, replace=replace, dry=dry)
        except ApiRefused as error:
            refused += 1
            click.echo(f"{each.get('id', '?')}: {error}", err=True)
        else:
            click.echo(each.get("id", "?"))
    sys.exit(1 if refused else 0)


def _exported(file: IO[bytes]) -> list[Document]:
    try:
        found = json.load(file)
    except ValueError as error:
        fail(f"{file.name}: not JSON: {error}")
    listed = found.get("subscriptions") if isinstance(found, dict) and found.get("form") == _FORM else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        fail(f"{file.name}: not an export of subscriptions; `scopegate subscriptions export` makes one")
    return listed


def _put(client: ManagerClient, subscription: Document, *, replace: bool, dry: bool) -> None:
    query = "?dry=1" if dry else ""
    try:
        client.request("POST", query, subscription)
    except ApiRefused as error:
        if error.status != 409 or not replace:
            raise
        client.request("PUT", item(subscription["id"]) + query, subscription)


subscriptions.add_command(attempt)
