"""Commands of `scopegate pipeline` reach their jobs; what goes wrong there is one sentence and exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import BadParameter, ClickException, Context
from click.testing import CliRunner

from bridges.kafka.admin import offsets
from bridges.spark.cli.archive import archive
from gateway.cli.main import main
from tests.support.gateway.process import free_port
from tests.support.spark import archives
from tests.support.spark.report import events

AMQP = ("--amqp", "url=amqp://127.0.0.1:PORT", "--amqp", "address=events")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "ARCHIVE"), "is not an archive"),
        (("replay", "ARCHIVE", "--from", "a", *AMQP), "is not an archive"),
        (("replay", "ARCHIVE", "--from", "a", "--kafka", "127.0.0.1:PORT", "--topic", "t"), "is not an archive"),
        (("archive", "ARCHIVE", "--once", *AMQP), "127.0.0.1:PORT"),
        (("archive", "ARCHIVE", "--once", "--kafka", "127.0.0.1:PORT", "--topic", "t"), "does not answer for topic t"),
    ],
)
def test_a_command_calls_its_job(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_TIMEOUT", 1.0)
    port = str(free_port())

    def filled(text: str) -> str:
        return text.replace("ARCHIVE", str(tmp_path / "a")).replace("PORT", port)

    done = CliRunner().invoke(main, ["pipeline", *map(filled, words)])
    assert done.exit_code == 1, done.output
    assert filled(said) in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("target", [AMQP, ("--kafka", "127.0.0.1:PORT", "--topic", "t")])
def test_a_replay_with_a_wrong_filter_asks_nobody(target: tuple[str, ...], tmp_path: Path) -> None:
    """To a topic, it was told by a task of Spark, and its reason by a worker."""
    folder = archives.written(tmp_path / "archive", {"orders": events()}).path
    words = [each.replace("PORT", str(free_port())) for each in target]
    call = ["pipeline", "replay", str(folder), "--from", "orders", "--filter", "colour = ", *words]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 1, done.output
    assert "the filter: " in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_time_that_is_none_is_wrong_use() -> None:
    done = CliRunner().invoke(main, ["pipeline", "replay", "a", "--from", "b", "--topic", "t", "--since", "yesterday"])
    assert done.exit_code == 2
    assert "'yesterday' is not a time like" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "a", "--from", "b", "--topic", "t", "--kafka", "h:1"),
        ("report", "a", "--out", "b"),
        ("simulate", "--policy", "POLICY", "--candidate", "POLICY", "--journal", "rows"),
    ],
)
def test_times_that_end_before_they_begin_are_a_mistake(words: tuple[str, ...], tmp_path: Path) -> None:
    """There were no events, and no error."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("scopes: {edge: {}}\n")
    given = [str(policy) if each == "POLICY" else each for each in words]
    times = ("--since", "2026-02-01", "--until", "2026-01-01T12:00:00+01:00")
    done = CliRunner().invoke(main, ["pipeline", *given, *times])
    assert done.exit_code == 1, done.output
    said = "the end of the times, 2026-01-01 12:00:00+01:00, is before their beginning, 2026-02-01 00:00:00+00:00"
    assert done.stderr.endswith(f"{said}\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_start_that_is_none_is_named_with_its_option() -> None:
    done = CliRunner().invoke(main, ["pipeline", "archive", "a", "--kafka", "h:1", "--topic", "t", "--start", "today"])
    assert done.exit_code == 2
    assert "Invalid value for '--start': 'today' is not a time like" in done.stderr


@pytest.mark.parametrize("option", ["--topic", "--kafka", "--cluster", "--sample"])
def test_an_option_of_a_comparison_needs_one(option: str) -> None:
    """Without --against it was ignored, and the archive seemed to have been compared with its topics."""
    done = CliRunner().invoke(main, ["pipeline", "verify", "a", option, "1"])
    assert done.exit_code == 2
    assert f"{option} is only for a comparison with topics: add --against kafka" in done.stderr


@pytest.mark.parametrize("command", [("archive", "ARCHIVE", "--once"), ("verify", "ARCHIVE", "--against", "kafka")])
@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (("a=x", "b=x"), "--topic: the topics a and b have one address, x: give each its own (TOPIC=ADDRESS)"),
        (("x", "b=x"), "the topics x and b have one address, x"),
        (("t=x", "t=y"), "--topic names t twice"),
        (("t", "t"), "--topic names t twice"),
        (("t=",), "--topic 't=' is not TOPIC or TOPIC=ADDRESS"),
        (("=x",), "--topic '=x' is not TOPIC or TOPIC=ADDRESS"),
    ],
)
def test_each_topic_is_named_once_and_has_an_address_of_its_own(
    command: tuple[str, ...], topics: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Of two topics at one address, one was archived under the name of both."""
    words = [each.replace("ARCHIVE", str(tmp_path / "a")) for each in command]
    options = [each for topic in topics for each in ("--topic", topic)]
    done = CliRunner().invoke(main, ["pipeline", *words, "--kafka", "127.0.0.1:1", *options])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def of_policy(folder: Path, text: str) -> dict[str, object]:
    """The options that `archive` has with this section in its policy."""
    policy = folder / "policy.yaml"
    head = 'scopes: {edge: {}}\nkafka: {main: {bootstrap: "a:1"}}\n'
    policy.write_text(f"{head}pipeline: {{archive: {{{text}}}}}\n")
    return archive.make_context("archive", ["a", "--policy", str(policy)]).params


@pytest.mark.parametrize(("written", "read"), [("9464", ("127.0.0.1", 9464)), ('"0.0.0.0:1"', ("0.0.0.0", 1))])
def test_a_policy_has_defaults_of_outages_and_metrics(written: str, read: object, tmp_path: Path) -> None:
    options = of_policy(tmp_path, f"metrics: {written}, wait: 90s")
    assert (options["metrics"], options["wait"]) == (read, 90.0)
    options = of_policy(tmp_path, "")
    assert (options["metrics"], options["wait"]) == (None, 60.0)


@pytest.mark.parametrize("written", ["x", "99999", "true", '"a:b"'])
def test_a_port_of_metrics_that_is_none_is_named_with_its_place(written: str, tmp_path: Path) -> None:
    with pytest.raises(ClickException, match=r":3:31: pipeline.archive.metrics: must be a port or host:port"):
        of_policy(tmp_path, f"metrics: {written}")


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ("{a: x, b: x}", r":3:40: pipeline.archive.topics.b: the topics a and b have one address, x: give each its"),
        ("{a: , b: a}", r":3:39: pipeline.archive.topics.b: the topics a and b have one address, a"),
        ('{a: ""}', r":3:34: pipeline.archive.topics.a: must not be empty"),
    ],
)
def test_a_topic_of_a_policy_has_an_address_of_its_own(topics: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ClickException, match=said):
        of_policy(tmp_path, f"topics: {topics}")


@pytest.mark.parametrize("words", [("archive", "", "--topic", "t"), ("verify", ""), ("erase", "", "--key", "k")])
def test_an_empty_path_is_not_the_working_directory(words: tuple[str, ...]) -> None:
    """A variable of the shell that is not set has made archives in home directories."""
    result = CliRunner().invoke(main, ["pipeline", *words])
    assert (result.exit_code, "the path is empty" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("2", 2.0), ("0.2", 0.2), ("90s", 90.0), ("1h", 3600.0), ("0.05", None),
                          ("10ms", None), ("nan", None), ("soon", None), ("400d", None)],
)  # fmt: skip
def test_a_pause_is_a_duration_or_a_number_of_seconds(text: str, seconds: float | None) -> None:
    """`--every 30s` is what the policy file has; the option took plain numbers only."""
    (option,) = [each for each in archive.params if each.name == "every"]
    assert option.callback is not None
    with Context(archive) as context:
        if seconds is None:
            with pytest.raises(BadParameter):
                option.callback(context, option, text)
        else:
            assert option.callback(context, option, text) == seconds
