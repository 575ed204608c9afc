"""Defaults of `scopegate pipeline … --policy FILE`; the command line overrides them (docs/pipeline.md)."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from policies.values.base import Also, Count, Flag, Name, Path, StrictSection, parsed, setting_text
from policies.values.folders import archive_problem, url_problem
from policies.values.units import Duration, Size, parse_duration, parse_size

Topic = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Address = Annotated[str, StringConstraints(min_length=1)]


def _start(value: object) -> object:
    if value in ("earliest", "latest") or (isinstance(value, str) and _is_time(value)):
        return value
    raise ValueError('must be earliest, latest or a time, like "2026-11-21T12:00:00Z"')


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _local(value: str) -> str:
    if (problem := url_problem(value)) is not None:
        raise ValueError(problem)
    return value


def _archive(value: str) -> str:
    if (problem := archive_problem(value)) is not None:
        raise ValueError(problem)
    return value


def _listener(value: object) -> str:
    text = str(value) if type(value) is int else value
    port = text.rpartition(":")[2] if isinstance(text, str) else ""
    if not (isinstance(text, str) and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError('must be a port or host:port, like 9464 or "0.0.0.0:9464"')
    return text


Folder = Annotated[Path, AfterValidator(_local)]
ArchivePlace = Annotated[Path, AfterValidator(_archive)]
"""A folder, or `s3://bucket/prefix`."""
Listener = Annotated[
    str,
    StringConstraints(pattern=r"^(.+:)?[0-9]{1,5}$"),
    BeforeValidator(_listener),
    Also(lambda _: [{"type": "integer", "minimum": 0, "maximum": 65535}]),
]
"""A port, of 127.0.0.1 unless a host precedes it."""
Setting = Annotated[str, BeforeValidator(setting_text), Also(lambda _: [{"type": ["number", "boolean"]}])]


class PipelineSpark(StrictSection):
    """Spark settings of the jobs."""

    master: Annotated[str, StringConstraints(min_length=1)] = Field(
        default="local[*]", description="Spark's master: this machine, spark://host:port, k8s://…"
    )
    conf: dict[str, Setting] = Field(default_factory=dict, description="Spark's own settings; no secrets")
    jars: Folder | None = Field(
        default=None, description="folder with the jars that pyspark does not include; default: the cache, filled "
        "with Maven"
    )


class PipelineArchive(StrictSection):
    """Settings of `scopegate pipeline archive`."""

    path: ArchivePlace | None = Field(
        default=None, description="folder of the archive, or s3://bucket/prefix; default: given on the command line"
    )
    s3_endpoint: Annotated[str, StringConstraints(pattern=r"^https?://[^/@]+/?$")] | None = Field(
        default=None, description="URL of the object store for s3://…; default: AWS_ENDPOINT_URL_S3, or AWS itself"
    )
    s3_region: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="region of the bucket for s3://…; default: AWS_REGION"
    )
    topics: dict[Topic, Address | None] = Field(
        default_factory=dict,
        description="topic: its address in the archive, another one for each topic; default: the name of the topic",
    )
    start: Annotated[str, BeforeValidator(_start)] = Field(
        default="earliest", description="where to begin with a new topic: earliest, latest, or a time (ISO 8601)"
    )
    every: Annotated[Duration, Field(ge=100)] = parsed(parse_duration, "10s", "interval between checks of the topics")
    offsets: Count = Field(default=500_000, description="maximum number of offsets in one commit")
    file_size: Annotated[Size, Field(ge=2**20)] = parsed(parse_size, "128MiB", "approximate maximum size of a file")
    format: Literal["parquet", "delta", "iceberg"] | None = Field(
        default=None, description="delta, iceberg: also write such a table; default: the archive's current format, "
        "parquet for a new one"
    )
    wait: Annotated[Duration, Field(ge=0)] = parsed(
        parse_duration, "1m", "how long `--once` waits out an outage of Kafka or Spark"
    )
    metrics: Listener | None = Field(
        default=None, description="port of 127.0.0.1, or host:port, where Prometheus metrics are served; default: none"
    )
    fail_on_data_loss: Flag = Field(
        default=True, description="false: record offsets that were gone before they were archived, and continue"
    )
    fail_on_unknown_mapping: Flag = Field(
        default=False, description="true: stop at records written by a newer scopegate"
    )


class PipelineSection(StrictSection):
    """Defaults of `scopegate pipeline` when it runs with `--policy` and this file; the gateway ignores this section."""

    kafka: Name | None = Field(default=None, description="name of a cluster under kafka; default: the only one")
    spark: PipelineSpark = Field(default_factory=PipelineSpark, description="Spark settings of the jobs")
    archive: PipelineArchive = Field(default_factory=PipelineArchive, description="settings of `archive`")
