"""A replay to an AMQP address whose container refuses an event or goes away: what it has accepted is not sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridges.spark.columns.rows import EventRow
from tests.support.amqp.frames import target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Listener, Peer
from tests.support.gateway.process import PATIENCE
from tests.support.spark import archives
from tests.support.spark.pipeline import here, told_to_end

AGAIN = "run the same command to send it and the others that were not accepted"
COUNT = 10
"""Of events in the archive, in two partitions: the event with the delivery id n is number n."""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    events = [EventRow(number % 2, number // 2, number, None, message(b"%d" % number)) for number in range(COUNT)]
    return archives.written(tmp_path / "archive", {"orders": events, "other": events}).path  # type: ignore[return-value]


def connection(listener: Listener, credit: int = 100) -> Peer:
    """The next connection with its link, and credit for everything unless it is said."""
    peer = listener.accept_started()
    attach = peer.until("attach")
    peer.attach(attach.name, RECEIVER, target=target("q"))
    return peer.flow(0, link_credit=credit)


@contextmanager
def container(
    listener: Listener, answer: Callable[[Peer], list[bytes]], credit: int = 100
) -> Iterator[Future[list[bytes]]]:
    """A container for one replay, which connects twice: it looks whether it may send, and sends."""

    def serve() -> list[bytes]:
        connection(listener).until("close")
        return answer(connection(listener, credit))

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(serve)


def received(peer: Peer, count: int) -> list[bytes]:
    return [peer.until("transfer").payload for _ in range(count)]


def replay(archive: Path, listener: Listener, *, address: str = "orders") -> tuple[int, str, str]:
    url = f"url=amqp://127.0.0.1:{listener.port}"
    done = here("replay", archive, "--from", address, "--amqp", url, "--amqp", "address=q", "--name", "n")
    return done.returncode, done.stdout, done.stderr


def refuses_the_fifth(outcome: str) -> Callable[[Peer], list[bytes]]:
    def answer(peer: Peer) -> list[bytes]:
        found = received(peer, COUNT)
        peer.disposition(0, "accepted", last=3).disposition(4, outcome).disposition(5, "accepted", last=COUNT - 1)
        peer.until("close")
        return found

    return answer


def goes_away(peer: Peer) -> list[bytes]:
    found = received(peer, COUNT)
    peer.disposition(0, "accepted", last=3).disposition(5, "accepted", last=6).close().until("close")
    return found


def accepts(count: int) -> Callable[[Peer], list[bytes]]:
    def answer(peer: Peer) -> list[bytes]:
        found = received(peer, count)
        peer.disposition(0, "accepted", last=count - 1).until("close")
        return found

    return answer


@pytest.mark.parametrize(
    ("answer", "said", "left"),
    [
        (refuses_the_fifth("rejected"), " answers rejected to the event at offset 2 of partition 0\n", [4]),
        (refuses_the_fifth("released"), f" answers released to the event at offset 2 of partition 0; {AGAIN}\n", [4]),
        (refuses_the_fifth("modified"), f" answers modified to the event at offset 2 of partition 0; {AGAIN}\n", [4]),
        (goes_away, "; 4 events without an answer, which the next run sends again\n", [4, 7, 8, 9]),
    ],
)
def test_what_was_accepted_is_not_sent_again(
    archive: Path, answer: Callable[[Peer], list[bytes]], said: str, left: list[int]
) -> None:
    with Listener() as listener:
        with container(listener, answer) as first:
            code, _, told = replay(archive, listener)
        assert (code, told.endswith(said), told.count("\n")) == (1, True, 1), told
        sent = first.result()
        assert len(sent) == COUNT
        with container(listener, accepts(len(left))) as second:
            assert replay(archive, listener)[1].splitlines()[-1].startswith(f"{len(left)} event")
        assert second.result() == [sent[number] for number in left]


def test_a_replay_that_waits_for_credit_can_be_stopped(archive: Path) -> None:
    """What was accepted is stored, and the next run sends the rest."""
    three = threading.Event()

    def accepts_three(peer: Peer) -> list[bytes]:
        found = received(peer, 3)
        peer.disposition(0, "accepted", last=2)
        three.set()
        peer.until("close")
        return found

    with Listener() as listener:
        with container(listener, accepts_three, credit=3) as first, told_to_end(three.is_set, "three events", PATIENCE):
            code, _, told = replay(archive, listener)
        assert code == 1
        assert told.endswith("stopped after 3 events: run the same command to continue\n")
        with container(listener, accepts(COUNT - 3)) as rest:
            assert replay(archive, listener)[0] == 0
    assert len({*first.result(), *rest.result()}) == COUNT


def test_a_name_is_that_of_one_replay(archive: Path) -> None:
    """The offsets of another log would have been taken for progress, and its events for sent."""
    with Listener() as listener:
        with container(listener, accepts(COUNT)):
            assert replay(archive, listener)[0] == 0
        with ThreadPoolExecutor(1) as pool:
            probe = pool.submit(lambda: connection(listener).until("close"))
            code, _, told = replay(archive, listener, address="other")
            probe.result()
    assert code == 1
    assert "n.json is of another replay (orders (id) to q at " in told
    assert told.endswith(": use another --name\n")
