"""Options that the admin commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click

from gateway.cli.admin.client import AdminClient
from gateway.cli.admin.connection import AdminLogin, AdminPlace

EPILOG: Final = "Exit codes: 0 done; 1 the gateway refused, or did not answer (reported on stderr)."

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_PLACE: Final = (
    click.option("--admin", "place", envvar="SCOPEGATE_ADMIN", metavar="PLACE",
        help="The admin API: unix:/path, https://host:port or http://host:port.  [default: $SCOPEGATE_ADMIN, else the "
        "socket of the only gateway of this user on this machine]"),
    click.option("--token-file", type=_FILE, envvar="SCOPEGATE_ADMIN_TOKEN_FILE",
        help="A file with a token of gateway.admin.tokens.  [default: $SCOPEGATE_ADMIN_TOKEN_FILE, else the token in "
        "$SCOPEGATE_ADMIN_TOKEN]"),
    click.option("--ca", type=_FILE, envvar="SCOPEGATE_ADMIN_CA", help="The authority of the server's certificate, PEM."
        "  [default: $SCOPEGATE_ADMIN_CA, else those of this machine]"),
    click.option("--cert", type=_FILE, envvar="SCOPEGATE_ADMIN_CERT", help="A client certificate, PEM."),
    click.option("--key", type=_FILE, envvar="SCOPEGATE_ADMIN_KEY", help="The key of the client certificate, PEM."),
)  # fmt: skip
OUTPUT: Final = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="table for people, json for programs.",
)  # fmt: skip
Function = Callable[..., None]


def with_client(function: Function) -> Function:
    """A function whose `client` comes from the options that say where the admin API is, and how to log in."""

    @wraps(function)
    def run(
        place: str | None, token_file: Path | None, ca: Path | None, cert: Path | None, key: Path | None,
        **arguments: object,
    ) -> None:
        function(client=AdminClient(AdminPlace(place, AdminLogin(token_file, ca, cert, key))), **arguments)

    for option in reversed(_PLACE):
        run = option(run)
    return run


def admin_command(function: Function) -> click.Command:
    """A command with the shared options and exit codes."""
    return click.command(epilog=EPILOG)(OUTPUT(with_client(function)))
