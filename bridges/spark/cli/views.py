"""`scopegate pipeline views`: an archive as SQL views with plain columns."""

from __future__ import annotations

from pathlib import Path

import click

from bridges.spark.cli.local_path import ArchiveText, LocalPath, located
from bridges.spark.cli.options import EXIT_CODES, archive_argument, errors_reported

_FILE = LocalPath(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=EXIT_CODES)
@archive_argument
@click.option(
    "--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True, help="The SQL dialect."
)
@click.option("--address", "addresses", multiple=True, help="Only this address of the archive; may be repeated.")
@click.option(
    "--json-schema", "schema", type=_FILE,
    help="JSON Schema of the bodies, with one --address.  [default: inferred from a sample]",
)  # fmt: skip
@click.option("--prefix", default="", help="Prefix of the views' names.")
@click.option(
    "--files", type=click.IntRange(1), default=100, show_default=True,
    help="Look for properties in this many of the newest files of each address.",
)  # fmt: skip
@click.option(
    "--sample", type=click.IntRange(1), default=1000, show_default=True,
    help="Sample this many bodies of each address.",
)  # fmt: skip
@click.option("--out", type=LocalPath(path_type=Path, dir_okay=False), help="Write to this file.  [default: stdout]")
def views(
    archive: ArchiveText, engine: str, addresses: tuple[str, ...], schema: Path | None, prefix: str, files: int,
    sample: int, out: Path | None,
) -> None:  # fmt: skip
    """Write SQL that creates a view for each address of ARCHIVE, with properties, keys and bodies as plain columns.

    `props.color` is text and `props.n` a bigint, by the types in the archive. Keys and bodies are text where all are
    UTF-8, and JSON bodies are columns of `json`. Nothing is written to the archive; needs neither Spark nor duckdb.
    """
    if schema is not None and len(addresses) != 1:
        raise click.UsageError("--json-schema describes the bodies of one address: name it with --address")
    with errors_reported():
        from bridges.spark.views.views import ViewRequest, views_sql

        text = views_sql(located(archive), engine, ViewRequest(addresses, schema, prefix, files, sample))
        if out is None:
            click.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")
