"""`scopegate schema`: the JSON Schema of the policy file, its reference in Markdown, and those of metrics and API."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--markdown", is_flag=True, help="Print the reference in Markdown, docs/policy.md, instead.")
@click.option("--metrics", is_flag=True, help="Print the reference of the metrics, docs/metrics.md, instead.")
@click.option("--openapi", is_flag=True, help="Print the admin API's OpenAPI document, docs/openapi.json, instead.")
def schema(markdown: bool, metrics: bool, openapi: bool) -> None:
    """Print the JSON Schema of the policy file, for editors and other tools."""
    if metrics:
        from gateway.observability.catalog import markdown as metrics_page

        click.echo(metrics_page(), nl=False)
        return
    if openapi:
        from gateway.admin.openapi.description import openapi as description

        click.echo(json.dumps(description(), indent=1))
        return
    from policies.reference import markdown as page
    from policies.schema import json_schema

    click.echo(page() if markdown else json.dumps(json_schema(), indent=2), nl=not markdown)
