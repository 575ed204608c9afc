"""Options, arguments and error messages that commands of `scopegate pipeline` share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from bridges.spark.cli.local_path import ArchivePath, LocalPath
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.session import LOG
from gateway.plural import counted
from policies.values.archived import shared_addresses
from policies.values.units import parse_duration

if TYPE_CHECKING:
    from bridges.spark.session import SparkEngine

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., object])
EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 failed or stopped before the end (reported on stderr); 2 incorrect use of the command."
)

_LONGEST_PAUSE: Final = 365 * 86_400.0

def archive_argument(command: CommandFunction) -> CommandFunction:
    """Add the argument ARCHIVE, which `local_path.located` turns into a path, and the options of object stores."""
    command = click.argument("archive", type=ArchivePath())(command)
    return object_store_options(command)


def object_store_options(command: CommandFunction) -> CommandFunction:
    """Add the options that locate an object store; credentials come only from the environment."""
    for option in (
        click.option(
            "--s3-region", "region", expose_value=False, is_eager=True, callback=_into("AWS_REGION"),
            help="s3://…: the region of the bucket.  [default: AWS_REGION]",
        ),
        click.option(
            "--s3-endpoint", "endpoint", metavar="URL", expose_value=False, is_eager=True,
            callback=_into("AWS_ENDPOINT_URL_S3"),
            help="s3://…: the URL of the object store.  [default: AWS_ENDPOINT_URL_S3, or AWS itself]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def _into(variable: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            os.environ[variable] = value

    return keep


def session_options(command: CommandFunction) -> CommandFunction:
    """Add the options of every command that opens a Spark session; the command gets `conf` as a mapping."""
    for option in (
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", callback=_settings,
            help="A Spark setting; may be repeated.",
        ),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
        click.option(
            "--spark-log", metavar="FILE", expose_value=False, callback=_spark_log, is_eager=True,
            help="Write Spark's own log to this file; - is stderr.  [default: nowhere]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def spark_options(command: CommandFunction) -> CommandFunction:
    """Add the options of `session_options`, and `--jars` for commands that may write a Delta table."""
    jars = click.option(
        "--jars", type=LocalPath(path_type=Path), help="Folder with the jars of Delta Lake."
    )
    return session_options(jars(command))


def _spark_log(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ[LOG] = value


def _settings(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Mapping[str, str]:
    for pair in value:
        if "=" not in pair:
            raise click.UsageError(f"--conf {pair!r} is not KEY=VALUE", ctx)
    return dict(pair.split("=", 1) for pair in value)


def amqp_options(pairs: tuple[str, ...]) -> dict[str, str]:
    """The values of `--amqp`, as options of the data source. Raises `click.UsageError`."""
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--amqp {pair!r} is not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


class TimeParam(click.ParamType[datetime]):
    """A time in ISO 8601; in UTC if no zone is given."""

    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the text of an option."""
        try:
            when = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time like 2026-11-21 or 2026-11-21T12:00:00Z", param, ctx)
        return when if when.tzinfo else when.replace(tzinfo=UTC)


def spark_engine(master: str, conf: Mapping[str, str], jars: Path | None) -> SparkEngine:
    """The Spark of the options of `spark_options`; prints a message to stderr when it starts."""
    from bridges.spark.session import SparkEngine

    return SparkEngine(master, conf, jars, lambda text: click.echo(text, err=True))


def duration(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """The value in seconds of an option such as `90s` or `1h`."""
    try:
        return parse_duration(value).seconds
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def pause(ctx: click.Context, param: click.Parameter, value: str | float) -> float:
    """As `duration`, for an option that also takes a number of seconds; at least a tenth of a second."""
    try:
        found = float(value)
    except ValueError:
        found = duration(ctx, param, str(value))
    if not 0.1 <= found < _LONGEST_PAUSE:
        raise click.BadParameter(f"{value} is not between 100ms and a year", ctx, param)
    return found


def topic_addresses(topics: tuple[str, ...]) -> dict[str, str]:
    """The addresses in the archive by topic, from the values TOPIC[=ADDRESS] of `--topic`. Raises `click.UsageError`.

    Each topic is named once and has an address of its own.
    """
    found: dict[str, str] = {}
    for text in topics:
        topic, given, address = text.partition("=")
        if not topic or (given and not address):
            raise click.UsageError(f"--topic {text!r} is not TOPIC or TOPIC=ADDRESS")
        if topic in found:
            raise click.UsageError(f"--topic names {topic} twice")
        found[topic] = address or topic
    for _, problem in shared_addresses(found):
        raise click.UsageError(f"--topic: {problem} (TOPIC=ADDRESS)")
    return found


def unknown_mappings(count: int) -> str:
    """The message about records that a newer version wrote."""
    what = counted(count, "record has", "records have")
    return f"{what} a mapping that this version does not know: archived unchanged, not decoded"


@contextmanager
def errors_reported() -> Iterator[None]:
    """Print an error of a job as one sentence, and exit with code 1.

    The job's module is imported inside the `with` block, so that a missing library is reported like any other error.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # the error covers what py4j would log
    try:
        yield
    except ImportError as error:
        click.echo(f"{error.name} is not installed: pip install 'scopegate[spark]'", err=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output has closed it: click exits silently
        raise
    except (PipelineError, OSError) as error:
        sys.unraisablehook = lambda _: None  # ignore errors of sockets to a dead Java process
        click.echo(sentence(error), err=True)
        sys.exit(1)
