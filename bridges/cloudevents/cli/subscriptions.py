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
_FORM: Final = 2
"""The form of exports; in form 1, subscriptions have no positions and no secrets."""


def _api(command: F) -> F:
    """The options for the manager and the user."""
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
    """List, show, export and import the subscriptions of a running gateway, or try one on the events of a topic.

    Users see their own subscriptions; users of `manage` see those of all users.
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
@click.option("--secrets", is_flag=True, help="Include the secrets, encrypted under the keys of the gateway.")
def export(url: str, user: str | None, ca: Path | None, secrets: bool) -> None:
    """Write subscriptions and their positions to stdout, for `import`.

    Secrets are left out, or encrypted with `--secrets`: only a gateway with the same keys can read them. Delete the
    subscriptions here before or after the import; events that are delivered in between are sent again.
    """
    client, query = ManagerClient(url, user, ca), "?secrets=1" if secrets else ""
    try:
        found = [client.request("GET", f"{item(each['id'])}/export{query}") for each in client.objects()]
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
    """Create the subscriptions of an export for this user, at their positions.

    A subscription that is refused is reported, and the others are created.
    """
    client, refused = ManagerClient(url, user, ca), 0
    for each in _exported(file):
        try:
            _put(client, each, replace=replace, dry=dry)
        except ApiRefused as error:
            refused += 1
            click.echo(f"{_id(each)}: {error}", err=True)
        else:
            click.echo(_id(each))
    sys.exit(1 if refused else 0)


def _exported(file: IO[bytes]) -> list[Document]:
    try:
        found = json.load(file)
    except ValueError as error:
        fail(f"{file.name}: not JSON: {error}")
    form = found.get("form") if isinstance(found, dict) else None
    listed = found.get("subscriptions") if form in (1, _FORM) else None
    if isinstance(listed, list) and form == 1:
        listed = [{"subscription": each} for each in listed]
    if not isinstance(listed, list) or not all(isinstance(each.get("subscription"), dict) for each in listed):
        fail(f"{file.name}: not an export of subscriptions; `scopegate subscriptions export` makes one")
    return listed


def _id(exported: Document) -> str:
    return str(exported["subscription"].get("id", "?"))


def _put(client: ManagerClient, exported: Document, *, replace: bool, dry: bool) -> None:
    query = "dry=1" if dry else "dry=0"
    try:
        client.request("POST", f"?import=1&{query}", exported)
    except ApiRefused as error:
        if error.status != 409 or not replace:
            raise
        client.request("PUT", f"{item(_id(exported))}?{query}", exported["subscription"])


subscriptions.add_command(attempt)
