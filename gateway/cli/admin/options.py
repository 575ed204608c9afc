"""Options that the admin commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

EPILOG: Final = "Exit codes: 0 done; 1 the gateway refused, or did not answer (reported on stderr)."

PLACE: Final = click.option(
    "--admin", "place", envvar="SCOPEGATE_ADMIN", metavar="PLACE",
    help="The admin API, as in gateway.admin.listen: unix:/path.  [default: $SCOPEGATE_ADMIN, else the socket of the "
    "only gateway of this user on this machine]",
)  # fmt: skip
OUTPUT: Final = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="table for people, json for programs.",
)  # fmt: skip


def admin_command(function: Callable[..., None]) -> click.Command:
    """A command with the shared options and exit codes."""
    return click.command(epilog=EPILOG)(PLACE(OUTPUT(function)))
