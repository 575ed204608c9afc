"""`scopegate users`: manage the users file; a password is never printed."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import click

from gateway.cli.common import fail

_SALT_BYTES: Final = 16
_SECRET_BYTES: Final = 32
_SHORT_PASSWORD: Final = 8
"""Characters below which a password is called short."""


@click.group()
def users() -> None:
    """Manage the file of users and their salted password hashes."""


@users.command("add", epilog="Exit codes: 0 added; 1 the file, the user name or the password cannot be used.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("user")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of stdin.")
def add_user(file: Path, user: str, password_stdin: bool) -> None:
    """Add USER to the users file FILE, or give them a new password. The file is created if it does not exist.

    It holds salted SCRAM-SHA-256 and SCRAM-SHA-512 verifiers; the password cannot be read back from them. Its entry
    $secret, created with the first user, prevents peers from distinguishing unknown users from known ones: do not
    change it.
    """
    from gateway.amqp.sasl.user_file import make_entry, put_user

    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else _prompt()
    if not password:
        fail("the password is empty")
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        entry = make_entry(password, salt=secrets.token_bytes(_SALT_BYTES))
        _replace(file, put_user(text, user, entry, secret=secrets.token_bytes(_SECRET_BYTES)))
    except (OSError, ValueError) as error:
        _fail(file, error)
    if len(password) < _SHORT_PASSWORD:
        click.echo(f"warning: the password has fewer than {_SHORT_PASSWORD} characters and can be guessed", err=True)
    click.echo(f"{user} is in {file}")


@users.command("remove", epilog="Exit codes: 0 removed; 1 no such user, or the file cannot be used.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("user")
def remove_user(file: Path, user: str) -> None:
    """Remove USER from the users file FILE: a gateway that reads it closes the user's connections."""
    from gateway.amqp.sasl.user_file import remove_user

    try:
        _replace(file, remove_user(file.read_text("utf-8"), user))
    except (OSError, ValueError) as error:
        _fail(file, error)
    click.echo(f"{user} is no longer in {file}")


@users.command("list", epilog="Exit codes: 0 listed; 1 the file cannot be used.")
@click.argument("file", type=click.Path(path_type=Path))
def list_users(file: Path) -> None:
    """Print the names in the users file FILE, one a line."""
    from gateway.amqp.sasl.user_file import list_users

    try:
        names = list_users(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        _fail(file, error)
    for name in names:
        click.echo(name)


def _fail(file: Path, error: OSError | ValueError) -> NoReturn:
    fail(f"{file}: {error.strerror if isinstance(error, OSError) else error}")


def _prompt() -> str:
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


def _replace(path: Path, text: str) -> None:
    """Write a new file and rename it, so that a gateway never reads half of one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
