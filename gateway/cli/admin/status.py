"""`scopegate status`: what a running gateway is, and whether its parts are ready."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from gateway.cli.admin.client import AdminClient, Item
from gateway.cli.admin.options import admin_command
from gateway.cli.admin.tables import cell, serves, span, table


@admin_command
def status(client: AdminClient, output: str) -> None:
    """Show what a running gateway is, how much it serves, and whether its parts are ready."""
    found = client.get("/status")
    if output == "json":
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for line in _lines(found):
        click.echo(line)


def _lines(found: Item) -> Iterator[str]:
    held, limit = found["held_bytes"] / 2**20, found["held_limit_bytes"] / 2**20
    facts = {
        "gateway": f"{found['gateway']}, version {found['version']}, process {found['pid']}",
        "running": f"for {span(found['uptime_seconds'])}, {'ready' if found['ready'] else 'not ready'}",
        "policy": f"{found['policy']['file']}, digest {found['policy']['digest']}",
        "serves": serves(found),
        "holds": f"{held:.1f} MiB of {limit:.0f} MiB",
    }
    yield from (f"{name:8} {cell(text)}" for name, text in facts.items())
    yield ""
    rows = [
        [cell(name), "yes" if part["ready"] else "NO", cell(part["required"]), cell(part["detail"])]
        for name, part in found["parts"].items()
    ]
    yield from table(["PART", "READY", "REQUIRED", "DETAIL"], rows)
