"""The embedded Kafka survives the signals that its process gets."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from bridges.kafka.admin.embedded import EmbeddedKafka
from tests.support.gateway.process import wait_until

THREADS = Path("/proc/self/task")


def blocked(thread: str) -> int:
    """The signals that a thread of this process blocks, as the kernel's bit set."""
    (line,) = (each for each in (THREADS / thread / "status").read_text().splitlines() if each.startswith("SigBlk"))
    return int(line.split()[1], 16)


def name_of(thread: Path) -> str:
    """What a thread calls itself; nothing, if it has ended since the folder was read, as those of other tests do."""
    with contextlib.suppress(OSError):
        return (thread / "comm").read_text().strip()
    return ""


def thread_named(name: str) -> str | None:
    """A thread of this process that runs under this name; threads name themselves once their signals are set."""
    return next((each.name for each in THREADS.iterdir() if name_of(each) == name), None)


def test_no_thread_of_the_embedded_kafka_takes_a_signal() -> None:
    """Its broker would end: a reload (SIGHUP) once took the quick start's Kafka away."""
    kafka = EmbeddedKafka()
    try:
        wait_until(lambda: thread_named("rdk:mock"), "the thread of the mock cluster")
        thread = thread_named("rdk:mock")
        assert thread is not None
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            assert blocked(thread) >> (number - 1) & 1, number
    finally:
        kafka.close()


def test_the_caller_takes_signals_as_before() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    EmbeddedKafka().close()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
