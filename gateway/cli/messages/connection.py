"""The arguments and options that name a server and log in to it, shared by `send`, `receive` and `request`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import click

from gateway.cli.common import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.client.blocking import BlockingClient, Credentials
    from gateway.errors import AmqpError
    from policies.values.units import Endpoint

_VARIABLE: Final = "SCOPEGATE_PASSWORD"
Command = Callable[..., None]
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


class ServerOptions(NamedTuple):
    """A server and how to log in to it, as the command line has it."""

    endpoint: Endpoint
    user: str | None
    password_file: Path | None
    ca: Path | None
    cert: Path | None
    key: Path | None
    plain: bool


def server_options(command: Command) -> Command:
    """Add the argument URL and the options of the login; the command gets them as `server: ServerOptions`."""
    return reduce(lambda function, option: option(function), reversed(_OPTIONS), _gathered(command))


def _gathered(command: Command) -> Command:
    from functools import wraps

    @wraps(command)
    def gather(
        url: str, user: str | None, password_file: Path | None, ca: Path | None, cert: Path | None, key: Path | None,
        plain: bool, **rest: object,
    ) -> None:  # fmt: skip
        endpoint, named = read_url(url)
        if (cert is None) != (key is None):
            raise click.UsageError("--cert and --key belong together: a certificate and its private key")
        if user is not None and named is not None and user != named:
            raise click.UsageError(f"the URL names the user {named}, --user names {user}")
        command(server=ServerOptions(endpoint, user or named, password_file, ca, cert, key, plain), **rest)

    return gather


_OPTIONS: Final = (
    click.argument("url"),
    click.option("--user", help="Log in as this user; the URL may name it, too: amqp://USER@HOST."),
    click.option(
        "--password-file", type=_FILE,
        help=f"Read the password from a file.  [default: ${_VARIABLE}, or ask for it]",
    ),
    click.option("--ca", type=_FILE, help="Trust the authorities of this PEM file (amqps).  [default: the system's]"),
    click.option("--cert", type=_FILE, help="Client certificate, a PEM file (amqps)."),
    click.option("--key", type=_FILE, help="Private key of the client certificate, a PEM file."),
    click.option("--allow-plain-without-tls", "plain", is_flag=True, help="Allow the mechanism PLAIN over amqp://, "
                 "which shows the password to the network."),
)  # fmt: skip


def read_url(text: str) -> tuple[Endpoint, str | None]:
    """The endpoint of a URL, and its user if it names one. Raises click.UsageError."""
    from policies.values.units import parse_endpoint

    scheme, separator, place = text.partition("://")
    if not separator:
        scheme, place = "amqp", text
    login, at, place = place.rpartition("@")
    if ":" in login:
        raise click.UsageError(f"URL: a password is not taken from there; use --password-file or ${_VARIABLE}")
    try:
        return parse_endpoint(f"{scheme}://{place}"), unquote(login) if at else None
    except ValueError as error:
        raise click.UsageError(f"URL {scheme}://{place}: {error}") from None


@contextmanager
def connected(server: ServerOptions) -> Iterator[BlockingClient]:
    """A connection to the server; an error of it ends the command with exit code 1 and one line on stderr."""
    from gateway.client.blocking import BlockingClient
    from gateway.errors import AmqpError

    try:
        with BlockingClient(server.endpoint, credentials(server), name="command") as client:
            yield client
    except AmqpError as error:
        fail(_reason(error))


def _reason(error: AmqpError) -> str:
    """The server's condition and description; for errors that are not the server's, what is wrong."""
    from gateway.errors import INTERNAL_ERROR

    if error.condition == INTERNAL_ERROR:
        return error.description or "the connection failed"
    return f"{error.condition}: {error.description}" if error.description else error.condition


def credentials(server: ServerOptions) -> Credentials:
    """The login, with the password from its file, the environment or the terminal."""
    from gateway.client.blocking import Credentials

    password = None if server.user is None else _password(server.user, server.password_file)
    ca, cert, key = (None if file is None else str(file) for file in (server.ca, server.cert, server.key))
    return Credentials(server.user, password, ca, server.plain, cert, key)


def _password(user: str, file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--password-file {file}: {getattr(error, 'strerror', None) or 'is not text'}")
    if (found := os.environ.get(_VARIABLE)) is not None:
        return found
    if not sys.stdin.isatty():
        fail(f"user {user} needs a password: --password-file, or ${_VARIABLE} in the environment")
    return str(click.prompt(f"Password of {user}", hide_input=True, err=True))
