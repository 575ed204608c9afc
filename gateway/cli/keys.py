"""`scopegate keys`: create the secrets that sign and seal response-address cookies."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from gateway.cli.common import fail

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


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
        fail(f"{path}: {error.strerror}; an existing key is never overwritten")
    with os.fdopen(handle, "w") as file:
        file.write(secret + "\n")
