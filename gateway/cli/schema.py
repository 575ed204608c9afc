"""`scopegate schema`: the JSON Schema of the policy file, and its reference in Markdown."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--markdown", is_flag=True, help="Print the reference in Markdown, docs/policy.md, instead.")
def schema(markdown: bool) -> None:
    """Print the JSON Schema of the policy file, for editors and other tools."""
    from policies.reference import markdown as page
    from policies.schema import json_schema

    click.echo(page() if markdown else json.dumps(json_schema(), indent=2), nl=not markdown)
