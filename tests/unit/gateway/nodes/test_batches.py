"""Handlers around other handlers pass batches on: with a journal, in groups, on the way into a topic (found as E)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.groups.owner import GroupHandler
from bridges.kafka.groups.shared import SharedMember
from bridges.kafka.groups.shared_receiver import SharedReceiver
from bridges.kafka.links.receiver import LogReceiver
from bridges.kafka.links.sender import LogSender
from gateway.amqp.link.handlers import Incoming, takes_batches
from gateway.amqp.link.outcomes import ACCEPTED
from gateway.errors import INVALID_FIELD, AmqpError
from gateway.journal.link_counts import JournalOptions
from gateway.journal.recorder import Journal
from gateway.journal.rows import Heading
from gateway.nodes.cross_scope import _CrossScopeHandler
from gateway.state.leases.lease import RevocationReason
from tests.support.amqp.messages import message
from tests.support.project.parts import ROOT


def test_no_class_delegates_calls_that_it_does_not_name() -> None:
    """A wrapper that delegates by `__getattr__` loses what it does for each message when its inner handler learns more.

    Wrappers of handlers are `IncomingWrapper` and `OutgoingWrapper`, which name every call of the protocols.
    """
    texts = (path for package in ("gateway", "bridges") for path in (ROOT / package).rglob("*.py"))
    assert [path for path in texts if "def __getattr__" in path.read_text()] == []


def test_the_links_of_kafka_take_batches() -> None:
    for kind in (LogSender, LogReceiver):
        assert takes_batches(object.__new__(kind))
    for around in (GroupHandler, SharedMember):
        handler = object.__new__(around)
        handler._receiver = object.__new__(SharedReceiver)  # type: ignore[misc, union-attr]
        assert takes_batches(handler)


def test_a_handler_that_hides_another_one_in_silence_is_an_error() -> None:
    class Around:
        def __getattr__(self, name: str) -> Any:
            return getattr(Batches(), name)

    with pytest.raises(AttributeError, match="takes_batches"):
        takes_batches(Around())  # type: ignore[arg-type]  # what mypy sees here, too


def test_a_handler_takes_no_batches_unless_it_says_so() -> None:
    class Single(Incoming):
        def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None: ...
        def on_detach(self, error: Any) -> None: ...

    assert not takes_batches(Single())


class Batches:
    """A node's handler that takes several at once, and notes how they came."""

    def __init__(self) -> None:
        self.lots: list[list[Any]] = []

    def takes_batches(self) -> bool:
        return True

    def on_transfers(self, messages: Any) -> None:
        self.lots.append(list(messages))

    def on_transfer(self, *message: Any) -> None:
        self.lots.append([message])

    def on_accepted(self, contexts: list[Any]) -> None:
        self.lots.append(contexts)

    def on_outcome(self, context: Any, outcome: Any) -> None:
        self.lots.append([context])


def counter_of(sample: int, incoming: bool = True) -> tuple[Journal, Any]:
    table = Journal(Heading("gw", "p"), JournalOptions(sample=sample), lambda: 7)
    link: Any = SimpleNamespace(incoming=incoming, counter=None, accepted=0, outcome_counts={}, transfers=0)
    link.properties = {}
    link.source = SimpleNamespace(filter={})
    table.allowed(link, "edge", "orders", "app", "direct")
    return table, link.counter


@given(st.integers(0, 4), st.lists(st.lists(st.binary(max_size=4), min_size=1, max_size=6), max_size=6))
def test_a_journal_tells_the_same_of_batches_and_of_single_messages(sample: int, lots: list[list[bytes]]) -> None:
    (first, one), (second, other) = counter_of(sample), counter_of(sample)
    together, singly = Batches(), Batches()
    tap, single = one.instrument(together), other.instrument(singly)
    assert takes_batches(tap)
    for lot in lots:
        tap.on_transfers([(None, message(body), False) for body in lot])
        for body in lot:
            single.on_transfer(None, message(body), False)
    assert [row[0] for row in first.rows] == [row[0] for row in second.rows]
    assert (one.messages, one.bytes) == (other.messages, other.bytes)
    assert [len(lot) for lot in together.lots] == [len(lot) for lot in lots]
    assert len(first.rows) == (sum(map(len, lots)) // sample if sample else 0)


def test_a_journal_counts_what_was_accepted_in_batches() -> None:
    handler = Batches()
    _, counter = counter_of(0, incoming=False)
    ear = counter.instrument(handler)
    assert takes_batches(ear)
    ear.on_accepted(["a", "b"])
    ear.on_outcome("c", ACCEPTED)
    assert counter.outcomes == {"accepted": 3}
    assert handler.lots == [["a", "b"], ["c"]]


def test_a_row_about_one_message_is_json_whatever_the_names_are() -> None:
    table, counter = counter_of(1)
    counter.instrument(Batches()).on_transfers([(None, message(b"x", to='a"\\\u00e4', reply_to="r"), True)])
    row = json.loads(table.rows[0][0])
    assert (row["message_to"], row["message_reply_to"], row["settled"], row["seq"]) == ('a"\\\u00e4', "r", True, 1)
    assert (row["v"], row["kind"], row["from_ms"], row["to_ms"], row["annotated"]) == (1, "message", 7, 7, False)


def test_messages_into_a_topic_cross_in_batches_and_in_their_order() -> None:
    def crossing(data: bytes) -> bytes:
        return data.upper()

    transform_for = lambda link, inside: crossing  # noqa: E731
    context = SimpleNamespace(transforms=object(), transform_for=transform_for)
    scope: Any = SimpleNamespace(name="core", context=context)
    link: Any = SimpleNamespace(context=SimpleNamespace(replies="rewrite"), open=True)
    handler = Batches()
    entrance = _CrossScopeHandler(link, handler, scope)
    assert takes_batches(entrance)
    entrance.on_transfers([(1, b"a", False), (2, b"b", True)])
    assert handler.lots == [[(1, b"A", False), (2, b"B", True)]]


def test_what_crosses_is_handed_on_before_what_ends_the_link() -> None:
    """A settled message that cannot cross ends its link: what came before it must not go with the link."""

    def crossing(data: bytes) -> bytes:
        if data == b"wrong":
            raise AmqpError(INVALID_FIELD, "wrong")
        return data

    class Ending:
        context, open = SimpleNamespace(replies="rewrite", scope="edge"), True
        scope, behind, rejects = "edge", "core", True

        def fail(self, error: AmqpError) -> None:
            self.open = False
            handler.lots.append([error.condition])

        def tag(self, delivery: Any) -> bytes:
            return b"%d" % delivery

        def ignored(self, *_: Any) -> None:
            pass

        settle = message_refused = grant = ignored

    scope: Any = SimpleNamespace(
        name="core", context=SimpleNamespace(transforms=object(), transform_for=lambda link, inside: crossing)
    )
    handler, link = Batches(), Ending()
    handed: Any = link
    _CrossScopeHandler(handed, handler, scope).on_transfers([(1, b"a", True), (2, b"wrong", True), (3, b"b", True)])
    assert handler.lots == [[(1, b"a", True)], [INVALID_FIELD]]


def test_a_group_ends_a_link_behind_the_batch_that_has_its_last_outcomes() -> None:
    later: list[Any] = []
    loop = SimpleNamespace(call_later=lambda *_: None, call_soon=later.append)
    gate: Any = SimpleNamespace(closing=False, unsettled=("a", "b", "c"), ended=[])
    gate.detach = gate.ended.append
    receiver = Batches()
    receiver.on_credit, receiver.retirements = None, ()  # type: ignore[attr-defined]
    handler = GroupHandler(gate, None, receiver, SimpleNamespace(loop=loop), None, None)  # type: ignore[arg-type]
    assert takes_batches(handler)
    handler.stop(None, RevocationReason.REBALANCED)  # type: ignore[arg-type]
    handler.on_accepted(["a", "b"])
    handler.on_accepted(["c"])
    assert (receiver.lots, gate.ended) == ([["a", "b"], ["c"]], [])
    for call in later:
        call()
    assert len(gate.ended) == 1
