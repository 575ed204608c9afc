"""Folders of the pipeline are paths: Spark and Python would take a URL for two different places (found as F1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bridges.spark.archive.store import Archive
from bridges.spark.cli.local_path import LocalPath
from bridges.spark.cli.pipeline import pipeline
from bridges.spark.errors import PipelineError
from gateway.cli.main import main
from policies.values.folders import url_problem
from tests.support.gateway.policy import mistakes

KAFKA = ("--kafka", "127.0.0.1:1")
CALLS = [
    ("archive", "URL", *KAFKA, "--topic", "t", "--once"),
    ("archive", "/tmp/a", *KAFKA, "--topic", "t", "--jars", "URL"),
    ("verify", "URL"),
    ("replay", "URL", *KAFKA, "--from", "t", "--topic", "u"),
    ("report", "URL", "--out", "/tmp/r"),
    ("report", "/tmp/a", "--out", "URL"),
    ("simulate", "--policy", "URL", "--candidate", __file__, "--journal", "/tmp/a"),
    ("simulate", "--policy", __file__, "--candidate", __file__, "--journal", "URL"),
    ("simulate", "--policy", __file__, "--candidate", __file__, "--messages", "URL"),
    ("simulate", "--policy", __file__, "--candidate", __file__, "--journal", "/tmp/a", "--out", "URL"),
    ("quickstart", "--folder", "URL"),
    ("jars", "--to", "URL"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: " ".join(call[:1] + call[-2:]))
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///data/a", "give the path alone, /data/a"),
        ("gs://bucket/a", "give the path of a folder on a disk or a mounted file system, such as /data/archive"),
        ("hdfs:/a", "give the path of a folder on a disk or a mounted file system, such as /data/archive"),
    ],
)
def test_no_command_takes_a_url_for_a_folder(
    call: tuple[str, ...], url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["pipeline", *(url if each == "URL" else each for each in call)])
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def commands() -> Iterator[click.Command]:
    context = click.Context(pipeline)
    for name in pipeline.list_commands(context):
        command = pipeline.get_command(context, name)
        assert command is not None
        yield command


def test_every_path_of_every_command_is_checked() -> None:
    paths = [each for command in commands() for each in command.params if isinstance(each.type, click.Path)]
    assert len(paths) > 10
    assert [each.name for each in paths if not isinstance(each.type, LocalPath)] == []


@pytest.mark.parametrize("key", ["archive: {path:", "spark: {jars:"])
def test_no_key_of_a_policy_takes_one_either(key: str) -> None:
    (problem,) = mistakes(f'pipeline:\n  {key} "gs://bucket/a"}}\nscopes: {{a: {{}}}}\n')
    assert problem.startswith("2:")
    assert "gs://bucket/a is a URL (gs:), but only paths are accepted" in problem


def test_nor_does_python() -> None:
    with pytest.raises(PipelineError, match=r"file:/data/a is a URL \(file:\).* give the path alone, /data/a$"):
        Archive(Path("file:///data/a"))


@pytest.mark.parametrize(
    ("url", "path"),
    [("file:x", "x"), ("file:a/b", "a/b"), ("FILE:/x", "/x"), ("file:///x", "/x"), ("file://localhost/x", "/x")],
)
def test_the_path_that_is_named_instead_is_that_of_the_url(url: str, path: str) -> None:
    """`file:x` is `x` of the current folder; the answer named `/x`."""
    assert str(url_problem(url)).endswith(f"give the path alone, {path}")


@pytest.mark.parametrize("url", ["file:", "file://", "file://elsewhere/x"])
def test_a_url_of_no_path_of_this_machine_gets_an_example(url: str) -> None:
    assert str(url_problem(url)).endswith("such as /data/archive")


@pytest.mark.parametrize("path", ["a", "/a:b/c", "./a:b", "2026:a", ""])
def test_a_colon_alone_makes_no_url(path: str) -> None:
    assert url_problem(path) is None


@pytest.mark.parametrize("call", CALLS, ids=lambda call: " ".join(call[:1] + call[-2:]))
def test_only_archives_may_be_in_an_object_store(
    call: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "URL" in call[1:2] or call[-2:] in (("--journal", "URL"), ("--messages", "URL")):
        return
    done = CliRunner().invoke(main, ["pipeline", *("s3a://bucket/a" if each == "URL" else each for each in call)])
    assert done.exit_code == 2, done.output
    assert "but only paths are accepted" in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())
