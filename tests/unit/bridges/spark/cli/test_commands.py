"""Commands of `scopegate pipeline` reach their jobs; what goes wrong there is one sentence and exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from tests.support.gateway.process import free_port

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
def test_a_command_calls_its_job(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    port = str(free_port())

    def filled(text: str) -> str:
        return text.replace("ARCHIVE", str(tmp_path / "a")).replace("PORT", port)

    done = CliRunner().invoke(main, ["pipeline", *map(filled, words)])
    assert done.exit_code == 1, done.output
    assert filled(said) in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_time_that_is_none_is_wrong_use() -> None:
    done = CliRunner().invoke(main, ["pipeline", "replay", "a", "--from", "b", "--topic", "t", "--since", "yesterday"])
    assert done.exit_code == 2
    assert "'yesterday' is not a time like" in done.stderr
