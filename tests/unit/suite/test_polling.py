"""What a test waits for is looked at less often the longer it takes, and each line of a log is parsed once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import log_lines
from tests.support.gateway.log_lines import LogLines
from tests.support.gateway.process import Timeout, wait_until


class Clock:
    """Time that passes in sleeps alone."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_a_wait_pauses_for_longer_the_longer_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    with pytest.raises(Timeout, match="not within 5 s: ever"):
        wait_until(lambda: False, "ever", 5)
    assert clock.pauses == sorted(clock.pauses)
    assert (clock.pauses[0], clock.pauses[-1]) == (0.01, 0.1)
    assert 5 < sum(clock.pauses) < 5.2
    assert all(pause <= max(0.01, sum(clock.pauses[:at]) / 4 + 1e-9) for at, pause in enumerate(clock.pauses))


def test_each_line_of_a_log_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, seen = tmp_path / "log", list[str]()
    parse = log_lines.parsed

    def noted(line: str) -> dict[str, Any]:
        seen.append(line)
        return parse(line)

    monkeypatch.setattr(log_lines, "parsed", noted)
    file.write_bytes(b'{"event": "one"}\nplain\n{"event": ')
    lines = LogLines(file)
    assert lines.read() == lines.read() == [{"event": "one"}, {"raw": "plain"}]  # the third is half written
    with file.open("ab") as more:
        more.write(b'"two"}\n')
    assert lines.read() == lines.read() == [{"event": "one"}, {"raw": "plain"}, {"event": "two"}]
    assert seen == ['{"event": "one"}', "plain", '{"event": "two"}']
