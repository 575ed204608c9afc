"""What `scopegate pipeline … --policy FILE` does where the command line does not say otherwise (docs/pipeline.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from policies.folders import url_problem
from policies.model.base import Also, Count, Flag, Name, Path, StrictSection, parsed
from policies.model.units import Duration, Size, parse_duration, parse_size

Topic = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


def _setting(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _start(value: Any) -> Any:
    try:
        _ = value in ("earliest", "latest") or datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError('must be earliest, latest or a time, like "2026-11-21T12:00:00Z"') from None
    return value


def _local(value: str) -> str:
    if (problem := url_problem(value)) is not None:
        raise ValueError(problem)
    return value


Folder = Annotated[Path, AfterValidator(_local)]
Setting = Annotated[str, BeforeValidator(_setting), Also(lambda _: [{"type": ["number", "boolean"]}])]


class PipelineSpark(StrictSection):
    """The Spark that runs the jobs."""

    master: Annotated[str, StringConstraints(min_length=1)] = Field(
        default="local[*]", description="Spark's master: this machine, spark://host:port, k8s://…"
    )
    conf: dict[str, Setting] = Field(default_factory=dict, description="Spark's own settings; no secrets")
    jars: Folder | None = Field(
        default=None, description="folder with the jars that pyspark lacks; default: the cache, filled with Maven"
    )


class PipelineArchive(StrictSection):
    """What `scopegate pipeline archive` copies, and how."""

    path: Folder | None = Field(default=None, description="the archive's folder; default: the command line names it")
    topics: dict[Topic, str | None] = Field(
        default_factory=dict, description="topic: its address in the archive; without one the topic's name"
    )
    start: Annotated[str, BeforeValidator(_start)] = Field(
        default="earliest", description="where a new topic begins: earliest, latest, or a time (ISO 8601)"
    )
    every: Annotated[Duration, Field(ge=100)] = parsed(parse_duration, "10s", "time between looks at the topics")
    offsets: Count = Field(default=500_000, description="offsets of one commit at most")
    file_size: Annotated[Size, Field(ge=2**20)] = parsed(parse_size, "128MiB", "bound of a file")
    format: Literal["parquet", "delta"] | None = Field(
        default=None, description="delta: a Delta table as well; default: as the archive is, parquet for a new one"
    )
    fail_on_data_loss: Flag = Field(
        default=True, description="false: note offsets that are gone before they were archived, and go on"
    )
    fail_on_unknown_mapping: Flag = Field(
        default=False, description="true: stop at records that a newer scopegate has written"
    )


class PipelineSection(StrictSection):
    """Defaults of `scopegate pipeline` for `--policy` with this file; a gateway does not look at it."""

    kafka: Name | None = Field(default=None, description="a cluster under kafka; default: the only one")
    spark: PipelineSpark = Field(default_factory=PipelineSpark, description="the Spark that runs the jobs")
    archive: PipelineArchive = Field(default_factory=PipelineArchive, description="archive: what is copied, and how")
