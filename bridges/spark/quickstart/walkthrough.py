"""The guided walkthrough of the data pipeline: traffic, archive, verification, simulation, replay, report.

Every step runs a command as on the command line. Independent code compares the result byte for byte with the messages
that the gateway's clients sent.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import webbrowser
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bridges.spark.errors import PipelineError
from bridges.spark.quickstart.command_runner import CommandRunner
from bridges.spark.report.job import PAGE, TABLES
from bridges.spark.session import check_java
from gateway.filters.parse.filter_set import SQL
from gateway.quickstart import Tour, run, traffic
from gateway.quickstart.checks import Checks, StepFailed
from gateway.quickstart.ports import Ports
from gateway.quickstart.server import Server
from gateway.quickstart.terminal_output import TerminalOutput
from gateway.quickstart.traffic import AGAIN, ASKED, COUNT, ORDERS, RED, REFUSED, SentTraffic

_MARK: Final = ".scopegate-pipeline"
"""A file that marks the folder of an earlier walkthrough, which may be removed."""
_JOURNAL: Final = "scopegate.journal"
_CHANGES: Final = (
    ('kafka: main, topic: "{topic}"}', 'kafka: main, topic: "v2-{topic}"}'),
    ('may: [send, receive, info], on: "events/*"', 'may: [receive, info], on: "events/*"'),
    ("replies: auto", "replies: rewrite"),
    ('may: send, on: "svc/*"}', 'may: send, on: "svc/*"}\n      - {who: "*", may: receive, on: "payroll/**"}'),
)  # fmt: skip
_WOULD: Final = {
    "denied": f"sending to {ORDERS}",
    "allowed": f"reading {REFUSED}",
    "routed": f"reading {ORDERS}, in another topic",
    "rewritten": f"requests to {ASKED}",
}
"""The effects of the changes, by the names of the differences in `simulate`."""
_DIFFERENT: Final = 3
_Totals = tuple[int, int, int]
"""The number of events found, and of wrong or missing ones."""


def start(folder: Path, policy: Path | None, *, once: bool) -> int:
    """Run the whole walkthrough in `folder`; returns 0 only if every step was verified. Raises `PipelineError`."""
    check_java()
    walkthrough = Walkthrough(_emptied(folder))
    title = "its data pipeline, from traffic to a report"
    with closing(walkthrough):
        return run(once, policy, Tour("pipeline.yaml", title, walkthrough.show, walkthrough.attach))


def _emptied(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise PipelineError(f"{folder} exists and is not from an earlier run: choose another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        (folder / _MARK).touch()
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from None
    return folder.resolve()


class Walkthrough:
    """The chapters."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._archive: Final = folder / "archive"
        self._page: Final = folder / "report" / PAGE
        self._commands: Final = CommandRunner(folder / "spark.log")

    def close(self) -> None:
        """End the process that runs the commands."""
        self._commands.close()

    def show(self, ports: Ports, bootstrap: str, terminal: TerminalOutput, checks: Checks) -> None:
        """Run all steps."""
        sent = traffic.make(ports, terminal, checks)
        terminal.heading("2  Archive: events as Parquet, each offset once")
        self._archived(ports, sent, terminal, checks)
        terminal.heading("3  Simulate: what would another policy have done?")
        self._simulated(ports, terminal, checks)
        terminal.heading("4  Replay: the same bytes once more")
        self._replayed(ports, sent, terminal, checks)
        terminal.heading("5  Report")
        self._reported(terminal, checks)
        self.close()

    def attach(self, ports: Ports, server: Server, bootstrap: str, terminal: TerminalOutput) -> None:
        """Print commands to try while the gateway keeps serving, and open the report in a browser if there is one."""
        terminal.heading("The gateway keeps running: try it yourself")
        for words in (_read(ports, self._archive, ORDERS), ["verify", str(self._archive)]):
            terminal.code(_line(words))
        terminal.gap()
        terminal.say("The report, its policy and its log:")
        terminal.code(f"{self._page}\n{ports.policy}\n{server.log}")
        if sys.stdout.isatty() and any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
            webbrowser.open(self._page.as_uri())
        terminal.gap()
        terminal.say("Ctrl-C ends it.")

    # -- steps

    def _archived(self, ports: Ports, sent: list[SentTraffic], terminal: TerminalOutput, checks: Checks) -> None:
        for address in (ORDERS, _JOURNAL):
            self._command(terminal, _read(ports, self._archive, address))
        output = self._command(terminal, ["verify", str(self._archive)])
        checks.equal("no gap, no overlap, no file that is not the one committed", "wrong" in output, False)
        rows = self._rows(ORDERS)
        checks.equal(f"{COUNT:,} events, byte for byte those that were sent", *_same((row[2] for row in rows), sent))
        numbers = {each.bare: number for number, each in enumerate(sent)}
        known = ((sent[numbers[bare]].key, numbers[bare]) for _, _, bare in rows)
        checks.nothing("in the order of sending for each customer", _disorder(known), expected="their order")

    def _simulated(self, ports: Ports, terminal: TerminalOutput, checks: Checks) -> None:
        text = ports.policy.read_text()
        for old, new in _CHANGES:
            if text.count(old) != 1:
                raise StepFailed("a candidate policy", f"{old!r} once in {ports.policy}", text.count(old))
            text = text.replace(old, new)
        candidate = self._folder / "candidate.yaml"
        candidate.write_text(text)
        words = ["--policy", str(ports.policy), "--candidate", str(candidate), "--journal", str(self._archive)]
        comparison = json.loads(self._command(terminal, ["simulate", *words, "--json"], code=_DIFFERENT))
        found = comparison["differences"]
        checks.equal("it finds what was changed, and nothing else", sorted(found), sorted(_WOULD))
        terminal.table([(word, _WOULD[word], f"{found[word]['messages']:,} messages") for word in _WOULD])
        checks.equal(f"of {COUNT:,} orders none could be sent", found["denied"]["messages"], COUNT)

    def _replayed(self, ports: Ports, sent: list[SentTraffic], terminal: TerminalOutput, checks: Checks) -> None:
        url = ["--amqp", f"url=amqp://{ports.edge}", "--amqp", f"address={AGAIN}"]
        words = ["replay", str(self._archive), "--from", ORDERS, *url]
        output = self._command(terminal, words)
        checks.equal("every event was accepted", f"{COUNT} events written in all" in output, True)
        events = traffic.read_again(ports, COUNT)
        checks.equal(f"{COUNT:,} events at {AGAIN}, byte for byte", *_same((bare for _, bare in events), sent))
        numbers = {each.bare: number for number, each in enumerate(sent)}
        keys = [f"{key} instead of {sent[numbers[bare]].key}" for key, bare in events if key != sent[numbers[bare]].key]
        checks.nothing("with their keys", keys, expected="the key of the event")
        known = ((key, numbers[bare]) for key, bare in events)
        checks.nothing("in the order of sending for each customer", _disorder(known), expected="their order")
        again = self._command(terminal, words)
        checks.equal("the same command once more writes nothing", "0 events written in all" in again, True)

    def _reported(self, terminal: TerminalOutput, checks: Checks) -> None:
        out = self._page.parent
        self._command(terminal, ["report", str(self._archive), "--out", str(out)])
        tables = {path.stem: pq.read_table(path).to_pylist() for path in (out / TABLES).glob("*.parquet")}
        flowed = sum(row["events"] for row in tables["archive_traffic"])
        came = sum(row["messages"] for row in tables["links"] if row["address"] == ORDERS and row["action"] == "send")
        checks.equal("archive and journal agree with what was sent", (flowed, came), (COUNT, COUNT))
        (billing,) = (row for row in tables["filters"] if row["group"] == "billing")
        (audit,) = (row for row in tables["filters"] if row["filters"] == SQL)
        selected = (billing["matched"], audit["matched"], round(audit["selectivity"], 2))
        checks.equal("the audit's filter took one in ten, the group took all", selected, (COUNT, RED, RED / COUNT))
        most = max(row["lag"] for row in tables["lag"] if row["group"] == "billing")
        checks.equal("the lag of the group shows in the report", most > 0, True)
        page = self._page.read_text()
        checks.equal("one page, eleven plots, no script, nothing from elsewhere", _elsewhere(page), (11, 0, 0))
        terminal.gap()
        terminal.say("The report, for any browser, including a phone's:")
        terminal.code(str(self._page))

    def _command(self, terminal: TerminalOutput, words: list[str], *, code: int = 0) -> str:
        """The output of a command. Raises `StepFailed` for another exit code."""
        terminal.gap()
        terminal.say(f"$ {_line(words)}")
        done = self._commands.run(words)
        if done.code != code:
            raise StepFailed(f"scopegate pipeline {words[0]}", f"exit code {code}", f"{done.code}: {done.err[-300:]}")
        return done.out

    def _rows(self, address: str) -> list[tuple[int, int, bytes]]:
        """Partition, offset and bare message of an address, read as plain Parquet."""
        columns = ["partition", "offset", "bare_message"]
        files = (self._archive / f"address={address.replace('/', '%2F')}").rglob("*.parquet")
        found = [row for file in files for row in pq.ParquetFile(file).read(columns).to_pylist()]
        return sorted((row["partition"], row["offset"], row["bare_message"]) for row in found)


def _read(ports: Ports, archive: Path, address: str) -> list[str]:
    url = ["--amqp", f"url=amqp://{ports.edge}", "--amqp", f"address={address}"]
    return ["archive", str(archive), *url, "--once"]


def _line(words: Iterable[str]) -> str:
    return f"scopegate pipeline {shlex.join(words)}"


def _same(got: Iterable[bytes], sent: list[SentTraffic]) -> tuple[_Totals, _Totals]:
    """Totals that are equal if each event was received once; brief, since a failure prints them."""
    wanted, found = Counter(each.bare for each in sent), Counter(got)
    return (found.total(), len(found - wanted), len(wanted - found)), (wanted.total(), 0, 0)


def _disorder(events: Iterable[tuple[str, int]]) -> list[str]:
    last: dict[str, int] = defaultdict(lambda: -1)
    faults = []
    for key, number in events:
        if number <= last[key]:
            faults.append(f"{key}: order {number} after {last[key]}")
        last[key] = number
    return faults


def _elsewhere(page: str) -> tuple[int, int, int]:
    """The number of plots, scripts and external links."""
    return page.count("<svg "), page.count("<script"), page.count('src="') + page.count('href="http')
