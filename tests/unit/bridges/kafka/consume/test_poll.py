"""Taking records in C: what is refused, whom it is for, and what is done for others (decision 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from bridges.kafka.common import librdkafka
from bridges.kafka.common.librdkafka import address
from bridges.kafka.consume import _fetch, poll

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "any", "log_level": 0}


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    client = Consumer(NOWHERE)
    yield client
    client.close()


def test_this_environment_reads_in_c() -> None:
    assert poll.BOUND
    assert poll.poller_for(NOWHERE) is poll.poll_native


@pytest.mark.parametrize("more", [{"error_cb": print}, {"oauth_cb": print}, {"stats_cb": print}, {"logger": None}])
def test_a_client_that_calls_back_is_read_its_own_way(more: dict[str, Any]) -> None:
    assert poll.poller_for({**NOWHERE, **more}) is poll.poll_fallback


def test_a_client_of_another_version_is_read_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "version", lambda: "99.0.0")
    assert not librdkafka.bind(_fetch.bind, poll._FUNCTIONS, Consumer)
    monkeypatch.setattr(poll, "BOUND", False)
    assert poll.poller_for(NOWHERE) is poll.poll_fallback


def test_a_client_that_hides_its_library_is_read_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "address", lambda name: address(f"{name}_hidden"))
    assert not librdkafka.bind(_fetch.bind, poll._FUNCTIONS, Consumer)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _fetch.take(object(), 1, 1, 0),
        lambda: _fetch.take(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), 1, 1, 0),
        lambda: _fetch.take(None, 1, 1),  # type: ignore[call-arg]
        lambda: _fetch.take(None, "1", 1, 0),  # type: ignore[arg-type]
        lambda: _fetch.take(None, 1, 1, 0, "amqp.bare"),  # type: ignore[arg-type]
        lambda: _fetch.take(None, 1, 1, 0, b"amqp.bare", "1"),  # type: ignore[arg-type]
        lambda: _fetch.bind((1, 2, 3), Consumer),
        lambda: _fetch.bind((1,) * len(poll._FUNCTIONS), "Consumer"),  # type: ignore[arg-type]
        lambda: _fetch.bind([1], Consumer),  # type: ignore[arg-type]
        lambda: _fetch.Run(),
        lambda: _fetch.Record(),
    ],
)
def test_what_is_no_argument_is_refused_before_librdkafka_sees_it(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_nothing_is_at_address_zero_and_the_functions_stay_bound(consumer: Consumer) -> None:
    with pytest.raises(ValueError, match="address 0"):
        _fetch.bind((0,) * len(poll._FUNCTIONS), Consumer)
    assert _fetch.take(consumer, 1, 1, 0)[0] == []


def test_a_function_that_is_not_there_is_an_error_with_its_name() -> None:
    with pytest.raises(AttributeError, match="rd_kafka_no_such_thing"):
        address("rd_kafka_no_such_thing")


@pytest.mark.parametrize(("most", "bytes_"), [(0, 1), (1, 0), (-1, 1)])
def test_something_is_asked_for(consumer: Consumer, most: int, bytes_: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        _fetch.take(consumer, most, bytes_, 0)


def test_a_closed_client_gives_nothing() -> None:
    consumer = Consumer(NOWHERE)
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        _fetch.take(consumer, 1, 1, 0)


def test_another_layout_is_found_before_anything_is_taken(consumer: Consumer) -> None:
    """The client's opaque is the object itself; where it is not, the first field is no client of this object."""
    other = poll._FUNCTIONS.index("rd_kafka_opaque")
    addresses = [address(name) for name in poll._FUNCTIONS]
    try:
        _fetch.bind((*addresses[:other], address("rd_kafka_name"), *addresses[other + 1 :]), Consumer)
        with pytest.raises(TypeError, match="laid out"):
            _fetch.take(consumer, 1, 1, 0)
    finally:
        _fetch.bind(tuple(addresses), Consumer)
