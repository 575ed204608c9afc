"""`scopegate health`: ask a running gateway whether it is ready, for containers and scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.common import fail

if TYPE_CHECKING:
    from gateway.observability.readiness import ReadinessReport

_SECONDS = 5


@click.command(epilog="Exit codes: 0 ready (or alive); 1 not ready, or no answer (reported on stderr).")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--http", "place", help="The address of the gateway's HTTP port.  [default: gateway.http of FILE, else "
              "127.0.0.1:8672]")  # fmt: skip
@click.option("--live", is_flag=True, help="Ask only whether the process answers (/healthz).")
def health(file: Path | None, place: str | None, live: bool) -> None:
    """Ask a running gateway whether it is ready to serve clients, and print the parts that are not.

    FILE is its policy file, which says where it listens (gateway.http); secrets are not read.
    """
    if file is not None and place is not None:
        raise click.UsageError("FILE and --http exclude each other: both say where to ask")
    where = place or _place(file)
    status, body = _ask(where, "/healthz" if live else "/readyz")
    if live and status == 200:
        click.echo("alive")
        return
    _print(where, status, body)


def _place(file: Path | None) -> str:
    """Where the gateway of a policy file answers."""
    from gateway.cli.common import load_policy
    from policies.model.gateway import GatewaySection

    section = GatewaySection() if file is None else load_policy(file, with_secrets=False).model.gateway
    if section.http is None:
        fail(f"{file}: gateway.http is off: this gateway answers nobody")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(section.http.host, section.http.host)  # noqa: S104 (compared)
    return str(section.http._replace(host=host))


def _ask(where: str, path: str) -> tuple[int, bytes]:
    from urllib.error import HTTPError, URLError

    from gateway.http.opener import direct

    try:
        with direct().open(f"http://{where}{path}", timeout=_SECONDS) as response:
            return response.status, response.read()
    except HTTPError as error:
        return error.code, error.read()
    except (URLError, OSError, ValueError) as error:
        fail(f"no answer from http://{where}: {getattr(error, 'reason', error)}")


def _print(where: str, status: int, body: bytes) -> None:
    try:
        report: ReadinessReport = json.loads(body)
        parts = report["parts"].items()
    except (ValueError, KeyError, TypeError):
        fail(f"http://{where} answers {status}, and not as a gateway")
    for name, part in parts:
        if not part["ready"]:
            note = "" if part["required"] else " (not required)"
            click.echo(f"{name}: {part['detail'] or 'not ready'}{note}", err=True)
    click.echo("ready" if report["ready"] else "not ready")
    sys.exit(0 if report["ready"] else 1)
