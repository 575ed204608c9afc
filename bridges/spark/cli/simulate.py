"""`scopegate pipeline simulate`: what a candidate policy would have done to past traffic, for a change review."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from bridges.spark.archive.store import file_url
from bridges.spark.cli.local_path import LocalPath, archive_paths
from bridges.spark.cli.options import TimeParam, object_store_options, session_options
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.simulate.policy_diff import DIFFERENCES, PolicyDifference
from gateway.plural import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridges.spark.archive.read import ArchiveSelection
    from bridges.spark.simulate.job import CaseCount, SimulationOutcome
    from policies.rules import CompiledPolicy

_DIFFERENT: Final = 3


class _Options(TypedDict):
    """The options that select the rows, Spark and the output."""

    journal: tuple[str, ...]
    messages: tuple[str, ...]
    scope: str | None
    user: str
    by: str
    since: datetime | None
    until: datetime | None
    samples: int
    out: Path | None
    skip_bad: bool
    master: str
    conf: Mapping[str, str]


_FILE: Final = LocalPath(exists=True, dir_okay=False, path_type=Path)
_WORDS: Final = ["any", "none", *DIFFERENCES]


@click.command(
    epilog="Exit codes: 0 no differences (among those of --fail-on); 1 invalid input, or Spark cannot run (reported "
    "on stderr); 2 incorrect use of the command; 3 differences."
)
@click.option("--policy", "now", type=_FILE, required=True, help="The policy that was in force.")
@click.option("--candidate", type=_FILE, required=True, help="The policy to test.")
@click.option(
    "--journal", multiple=True, callback=archive_paths,
    help="Rows of the journal: JSON lines or Parquet, a file or folder.",
)  # fmt: skip
@click.option(
    "--messages", multiple=True, callback=archive_paths,
    help="Archived messages (docs/columns.md), as Parquet; needs --scope, may have --user.",
)  # fmt: skip
@click.option("--scope", help="With --messages: the scope of the senders.")
@click.option("--user", default="anonymous", show_default=True, help="With --messages: the user who sends them.")
@click.option(
    "--by", type=click.Choice(["address", "to"]), default="address", show_default=True,
    help="With --messages: send each to the archive's column address, or to its own `to`, as on an anonymous link.",
)  # fmt: skip
@click.option("--since", type=TimeParam(), help="Only journal rows and archived messages from this "
    "time on (UTC if no zone is given).")
@click.option("--until", type=TimeParam(), help="Only journal rows and archived messages before this "
    "time.")
@click.option("--samples", type=click.IntRange(0), default=10, show_default=True, help="Examples of each difference.")
@click.option("--out", type=LocalPath(path_type=Path), help="Write every row with both verdicts to this folder, as "
    "Parquet.")
@click.option(
    "--fail-on", multiple=True, type=click.Choice(_WORDS), default=["any"], show_default=True,
    help="Differences that make the exit code 3.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--skip-bad", is_flag=True, help="Skip records that are not journal rows.")
@object_store_options
@session_options
def simulate(
    now: Path, candidate: Path, fail_on: tuple[str, ...], as_json: bool, **options: Unpack[_Options]
) -> None:
    """Show what another policy would have done to past traffic.

    Reads the journal of the gateway (gateway.journal, docs/journal.md) or archived messages. Both policies are
    evaluated as the gateway evaluates them; neither needs its secrets, and no Kafka or gateway is involved.
    """
    if not (options["journal"] or options["messages"]):
        raise click.UsageError("name the traffic to evaluate: --journal or --messages")
    policies = _load(now), _load(candidate)
    try:
        outcome = _run(policies, options)
    except PipelineError as error:
        click.echo(f"pipeline simulate: {error}", err=True)
        sys.exit(1)
    changed = outcome.changed()
    if as_json:
        click.echo(json.dumps(_object(outcome, changed, options["samples"]), ensure_ascii=False, default=str))
    else:
        for line in _lines(outcome, changed, policies, options["samples"]):
            click.echo(line)
    words = {word for each in changed for word in each.finding.differences}
    fatal = words if "any" in fail_on else words & set(fail_on)
    sys.exit(_DIFFERENT if fatal else 0)


def _load(path: Path) -> CompiledPolicy:
    from gateway.config.policy import load
    from policies.text.diagnostics import PolicyErrors

    try:
        return load(path, with_secrets=False)
    except PolicyErrors as errors:
        click.echo(errors, err=True)
        sys.exit(1)


def _run(policies: tuple[CompiledPolicy, CompiledPolicy], options: _Options) -> SimulationOutcome:
    from bridges.spark.archive.read import ArchiveSelection
    from bridges.spark.session import SparkEngine, check_java, session

    if options["messages"]:
        missing = [str(each.file) for each in policies if options["scope"] not in each.scopes]
        if missing:
            raise PipelineError(f"--messages needs --scope, with a scope of {' and '.join(missing)}")
    if options["out"] is not None and options["out"].exists():
        raise PipelineError(f"{options['out']} already exists; --out creates a new folder")
    selection = ArchiveSelection(since=options["since"], until=options["until"])
    check_java()
    _progress("starting Spark")
    with session("simulate", SparkEngine(options["master"], options["conf"])) as spark:
        return _simulated(spark, policies, options, selection)


def _simulated(
    spark: SparkSession, policies: tuple[CompiledPolicy, CompiledPolicy], options: _Options, selection: ArchiveSelection
) -> SimulationOutcome:
    from bridges.spark.simulate import job, journal_checks
    from bridges.spark.simulate.policy_diff import NOTHING

    cases: DataFrame | None = None
    known, lost = NOTHING, 0
    if options["journal"]:
        rows = job.journal_rows(spark, options["journal"], options["since"])
        rows = journal_checks.between(rows, _milliseconds(options["since"]), _milliseconds(options["until"]))
        lost = journal_checks.check(rows, skip_bad=options["skip_bad"])
        rows = journal_checks.sound(rows)
        known = job.known_of(rows)
        cases = job.journal_cases(rows)
    for path in options["messages"]:
        rows = job.messages(spark, path, selection)
        assert options["scope"] is not None, "checked before Spark started"
        messages = job.message_cases(rows, scope=options["scope"], user=options["user"], by=options["by"])
        cases = messages if cases is None else cases.unionByName(messages, allowMissingColumns=True)
    assert cases is not None
    outcome = job.simulate(cases, *policies, known, _progress)._replace(lost=lost)
    if options["out"] is not None:
        _progress(f"writing every row to {options['out']}")
        _write(job.annotated_rows(cases, outcome), options["out"])
    return outcome


def _milliseconds(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1000)


def _write(rows: DataFrame, out: Path) -> None:
    """Write the rows; the folder appears when it is complete. Raises `PipelineError`."""
    import pyarrow.parquet as pq
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    fresh, seen = out.with_name(f".{out.name}.{os.getpid()}"), Observation("out")
    try:
        observed = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
        observed.write.mode("overwrite").parquet(file_url(fresh))
        there = sum(pq.read_metadata(path).num_rows for path in fresh.glob("*.parquet"))
        if there != seen.get["rows"]:  # a worker has written to another folder
            text = f"rows written: {seen.get['rows']}, found: {there}"
            raise PipelineError(f"{text}: every machine of the job needs the same folder at this path")
        fresh.rename(out)
    except Exception as error:  # from Spark, Java or the disk
        raise PipelineError(f"{out} cannot be written: {sentence(error)}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _progress(text: str) -> None:
    click.echo(f"… {text}", err=True)


# -- output


def _lines(
    outcome: SimulationOutcome, changed: list[CaseCount], policies: tuple[CompiledPolicy, CompiledPolicy], samples: int
) -> Iterator[str]:
    yield _summary(outcome, changed)
    for word, text in DIFFERENCES.items():
        some = [each for each in changed if word in each.finding.differences]
        if some:
            yield ""
            yield f"{word}: {text} - {_weight(some)}"
            yield from (line for each in some[:samples] for line in _sample(each, policies))
            yield from ([f"  … and {len(some) - samples} more"] if len(some) > samples else [])
    if outcome.lost:
        yield f"\nThe journal is not whole: {counted(outcome.lost, 'row was', 'rows were')} lost when it was written."
    if surprises := outcome.surprises():
        yield (
            "\nThe present policy is not the one that was in force: its decisions on "
            f"{counted(surprises, 'link')} differ from the journal's."
        )


def _summary(outcome: SimulationOutcome, changed: list[CaseCount]) -> str:
    span = ""
    if outcome.span is not None:
        first, last = (datetime.fromtimestamp(each / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for each in outcome.span)
        span = f" from {first} to {last} UTC"
    summary = f"{len(changed)} of {counted(len(outcome.findings), 'kind')} differ" if changed else "nothing differs"
    return f"{_weight(outcome.findings)}{span}: {summary}"


def _weight(some: list[CaseCount]) -> str:
    links, messages = sum(each.attached for each in some), sum(each.messages for each in some)
    single = sum(each.samples for each in some)
    parts = []
    if links or messages or not single:
        parts.append(f"{counted(links, 'link')} with {counted(messages, 'message')}")
    if single:
        parts.append(f"{counted(single, 'message')} looked at singly")
    return ", ".join(parts)


def _sample(each: CaseCount, policies: tuple[CompiledPolicy, CompiledPolicy]) -> Iterator[str]:
    case, finding = each.finding.case, each.finding
    who = "the gateway" if case.user is None else case.user
    place = case.address if case.address is not None else f"({case.route})"
    reply = f", reply-to {case.reply_to}" if case.reply_to else ""
    action = "sends to" if case.action == "send" else "receives from"
    yield f"  {who} {action} {place} in scope {case.scope}{reply}  ({_weight([each])})"
    yield f"      now        {finding.before}{_where(policies[0], finding)}"
    yield f"      candidate  {finding.after}{_where(policies[1], finding)}"


def _where(policy: CompiledPolicy, finding: PolicyDifference) -> str:
    """The lines of the policy that determine the verdict."""
    from policies.explain.explanation import explain

    case = finding.case
    if case.user is None or case.address is None or case.route or case.scope not in policy.scopes:
        return ""
    explained = explain(policy, case.scope, case.user, case.address, case.action)  # type: ignore[arg-type]
    places = [place for place in (explained.route_where, explained.access_where) if place]
    return f"  [{', '.join(places)}]" if places else ""


def _object(outcome: SimulationOutcome, changed: list[CaseCount], samples: int) -> dict[str, object]:
    def one(each: CaseCount) -> dict[str, object]:
        case = each.finding.case._asdict()
        weights = {"attached": each.attached, "messages": each.messages, "bytes": each.bytes, "samples": each.samples}
        before, after = (
            {"said": str(verdict), "decision": verdict.decision, "condition": verdict.condition,
             "crossing": list(verdict.crossing), **verdict.end._asdict()}
            for verdict in (each.finding.before, each.finding.after)
        )  # fmt: skip
        return {**case, **weights, "differences": list(each.finding.differences), "now": before, "candidate": after}

    def count(some: list[CaseCount]) -> dict[str, int]:
        names = ("attached", "messages", "bytes", "samples")
        return {"kinds": len(some), **{name: sum(getattr(each, name) for each in some) for name in names}}

    by_word = {word: [each for each in changed if word in each.finding.differences] for word in DIFFERENCES}
    return {
        "total": count(outcome.findings),
        "different": count(changed),
        "differences": {word: count(some) for word, some in by_word.items() if some},
        "samples": {word: [one(each) for each in some[:samples]] for word, some in by_word.items() if some},
        "lost": outcome.lost,
        "decided_otherwise": outcome.surprises(),
    }
