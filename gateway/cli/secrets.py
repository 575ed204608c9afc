"""`scopegate keys`, `scopegate users`: make the secrets a policy refers to; a password is never printed."""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

_SALT_BYTES = 16
_SECRET_BYTES = 32
_SHORT = 8
"""Characters below which a password is called short."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(1)


@click.group()
def keys() -> None:
    """Create the keys that sign response-address cookies."""


@keys.command("new", epilog="Exit codes: 0 created; 1 the file exists or cannot be written.")
@click.option("--id", "key_id", help="Name of the key in the ring.  [default: this month, like 2026-11]")
@click.option("--out", type=click.Path(path_type=Path), help="Write the secret to a new file (mode 0600).")
def new_key(key_id: str | None, out: Path | None) -> None:
    """Create a signing key: print a new secret and the lines of the policy that use it.

    With --out the secret is written to the file and not printed.
    """
    name = key_id or f"{datetime.now(UTC):%Y-%m}"
    if not _NAME.fullmatch(name):
        raise click.UsageError("--id must be a name of letters, digits, _, . and - (at most 64)")
    secret = secrets.token_urlsafe(32)
    if out is not None:
        _write_new(out, secret)
        click.echo(f'written to {out}\nin the policy, below keys.ring:  "{name}": {{file: "{out.resolve()}"}}')
        return
    variable = "SCOPEGATE_KEY_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    click.echo(f"{variable}={secret}")
    click.echo(f'in the policy, below keys.ring:  "{name}": {{env: {variable}}}')


def _write_new(path: Path, secret: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        _fail(f"{path}: {error.strerror}; an existing key is never overwritten")
    with os.fdopen(handle, "w") as file:
        file.write(secret + "\n")


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

    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else _asked()
    if not password:
        _fail("the password is empty")
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        entry = make_entry(password, salt=secrets.token_bytes(_SALT_BYTES))
        _replace(file, put_user(text, user, entry, secret=secrets.token_bytes(_SECRET_BYTES)))
    except OSError as error:
        _fail(f"{file}: {error.strerror}")
    except ValueError as error:
        _fail(f"{file}: {error}")
    if len(password) < _SHORT:
        click.echo(f"warning: the password has fewer than {_SHORT} characters and can be guessed", err=True)
    click.echo(f"{user} is in {file}")


def _asked() -> str:
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


def _replace(path: Path, text: str) -> None:
    """Write beside and rename, so that a gateway reading the file sees the old or the new one, whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
