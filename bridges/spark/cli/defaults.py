"""Values that the commands of `scopegate pipeline` take from a policy file: Kafka clusters, and its key `pipeline`.

Options on the command line take precedence: the policy's values are click's defaults (`default_map`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridges.spark.cli.local_path import LocalPath
from bridges.spark.cli.options import CommandFunction
from policies.values.folders import is_object_store

if TYPE_CHECKING:
    from policies.model.pipeline import PipelineArchive, PipelineSpark
    from policies.rules import CompiledPolicy


def kafka_options(command: CommandFunction) -> CommandFunction:
    """Add the options for a Kafka cluster; the command gets `policy` as a loaded policy."""
    for option in (
        click.option("--cluster", help="With --policy: the Kafka cluster.  [default: pipeline.kafka, or the only one]"),
        click.option(
            "--policy", type=LocalPath(path_type=Path), is_eager=True, callback=_loaded,
            help="The policy with the Kafka cluster; its key pipeline has defaults for these options.",
        ),
        click.option("--kafka", "bootstrap", metavar="HOST:PORT", help="Kafka's bootstrap servers, without --policy."),
    ):  # fmt: skip
        command = option(command)
    return command


def _loaded(ctx: click.Context, param: click.Parameter, value: Path | None) -> CompiledPolicy | None:
    from gateway.config.policy import load
    from policies.text.diagnostics import PolicyErrors

    if value is None:
        return None
    try:
        policy = load(value)
    except PolicyErrors as errors:
        raise click.ClickException(str(errors)) from None
    section = policy.model.pipeline
    if section is not None:
        path = section.archive.path
        found = {"cluster": section.kafka, **_spark(policy, section.spark)}
        found["archive"] = path if path is None or is_object_store(path) else str(policy.path(path))
        found |= {"endpoint": section.archive.s3_endpoint, "region": section.archive.s3_region}
        if ctx.command.name in ("archive", "verify"):
            found |= _archive(section.archive)
        named = {option.name for option in ctx.command.params}
        ctx.default_map = {name: value for name, value in found.items() if name in named and value is not None}
    return policy


def _spark(policy: CompiledPolicy, spark: PipelineSpark) -> dict[str, object]:
    return {
        "master": spark.master,
        "conf": [f"{name}={value}" for name, value in spark.conf.items()],
        "jars": None if spark.jars is None else str(policy.path(spark.jars)),
    }


def _archive(archive: PipelineArchive) -> dict[str, object]:
    return {
        "topics": [f"{topic}={address or topic}" for topic, address in archive.topics.items()],
        "start": archive.start,
        "every": archive.every.seconds,
        "offsets": archive.offsets,
        "file_size": max(archive.file_size // 2**20, 1),
        "format": archive.format,
        "wait": f"{archive.wait}ms",
        "metrics": archive.metrics,
        "fail": archive.fail_on_data_loss,
        "fail_unknown": archive.fail_on_unknown_mapping,
    }


def settings(bootstrap: str | None, policy: CompiledPolicy | None, cluster: str | None) -> dict[str, str]:
    """librdkafka's settings for the cluster of the options. Raises `click.UsageError`."""
    if policy is None:
        if bootstrap is None:
            raise click.UsageError("name the Kafka servers: --kafka HOST:PORT, or --policy FILE")
        return {"bootstrap.servers": bootstrap}
    clusters = policy.model.kafka
    known = ", ".join(clusters) or "none"
    if cluster is None and len(clusters) != 1:
        raise click.UsageError(f"name the --cluster of {policy.file} (there is: {known})")
    model = clusters.get(cluster) if cluster else next(iter(clusters.values()))
    if model is None:
        raise click.UsageError(f"there is no Kafka cluster {cluster} in {policy.file} (there is: {known})")
    found = {"bootstrap.servers": model.bootstrap, **policy.client_settings(model)}
    return found | ({"bootstrap.servers": bootstrap} if bootstrap else {})
