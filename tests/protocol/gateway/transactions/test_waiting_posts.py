"""Posts to destinations that are not open yet are in their transaction from the moment at which they have come.

The discharge comes in the same read as the posts, so that no destination of the link to the null target is open then.
"""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.together import together

ORDERS, SIZES = "events/orders", "events/sizes"


class Work:
    """A connection with a controller, a link to the null target, and a transaction."""

    def __init__(self, served: Served) -> None:
        self.peer: Peer = served.peer(desired_capabilities=["ANONYMOUS-RELAY"])
        self.controller, self.outbox = Controller(self.peer), Outbox(self.peer, None, 1)
        self.outbox.credit()
        self.outbox.outcomes = self.controller.outcomes
        self.txn_id = self.controller.declare()

    def post(self, body: bytes, to: str, *, settled: bool = True, outbox: Outbox | None = None) -> int:
        state = in_transaction(self.txn_id)
        return (outbox or self.outbox).post(message(body, to=to), state=state, settled=settled)

    def outcome(self, delivery: int) -> str:
        state = self.outbox.outcome(delivery)
        assert state["txn_id"] == self.txn_id
        return str(state["outcome"].name)

    def discharging(self, *, fail: bool = False) -> int:
        return self.controller.discharging(self.txn_id, fail=fail)


def bodies(inbox: Inbox, count: int) -> list[bytes]:
    return [bytes(sections(inbox.take())["data"]) for _ in range(count)]


@pytest.mark.row("AT-2.2.2-11", part="destinations that are not open")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_commit_is_about_all_posts_before_it(served: Served, settled: bool, known: bool) -> None:
    """Also if one destination is open, and the next one is not."""
    orders, sizes = Inbox(served.peer(), ORDERS), Inbox(served.peer(), SIZES)
    work = Work(served)
    if known:
        assert work.outbox.send(message(b"before", to=ORDERS)).matches("accepted")
        assert bodies(orders, 1) == [b"before"]
    with together(work.peer):
        posts = [work.post(b"%d" % at, to, settled=settled) for at, to in enumerate((ORDERS, SIZES, ORDERS, SIZES))]
        discharging = work.discharging()
    assert work.controller.outcome(discharging).matches("accepted")
    assert bodies(orders, 2) == [b"0", b"2"]
    assert bodies(sizes, 2) == [b"1", b"3"]
    if not settled:
        assert [work.outcome(each) for each in posts] == ["accepted"] * 4


@pytest.mark.row("AT-2.2.2-8", "AT-2.2.2-10")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_a_post_that_is_refused_after_the_discharge_has_come(served: Served, settled: bool, first: bool) -> None:
    """A settled one makes the commit fail; another one is rejected, and the others are committed."""
    orders = Inbox(served.peer(), ORDERS)
    work = Work(served)
    with together(work.peer):
        refused = work.post(b"no", "events/missing", settled=settled) if first else None
        work.post(b"kept", ORDERS)
        if refused is None:
            refused = work.post(b"no", "events/missing", settled=settled)
        discharging = work.discharging()
    outcome = work.controller.outcome(discharging)
    if settled:
        assert outcome["error"]["condition"] == "amqp:transaction:rollback"
        assert "amqp:not-found" in outcome["error"]["description"]
        assert outcome["error"]["info"] == {"delivery-tag": b"%d" % refused}
    else:
        assert outcome.matches("accepted")
        assert work.outcome(refused) == "rejected"
        assert bodies(orders, 1) == [b"kept"]


@pytest.mark.row("AT-2.2.2-11", part="destinations that are not open")
@pytest.mark.parametrize(("first", "second"), [(ORDERS, "chat/order"), ("chat/order", ORDERS)])
def test_the_first_post_decides_and_not_the_first_destination_that_opens(
    served: Served, first: str, second: str
) -> None:
    """A topic opens later than an address that stores nothing."""
    inboxes = {each: Inbox(served.peer(), each) for each in (first, second)}
    work = Work(served)
    with together(work.peer):
        kept, refused = [work.post(each.encode(), each, settled=False) for each in (first, second)]
        discharging = work.discharging()
    assert bodies(inboxes[first], 1) == [first.encode()]
    assert work.controller.outcome(discharging).matches("accepted")
    assert (work.outcome(kept), work.outcome(refused)) == ("accepted", "rejected")
    assert inboxes[second].empty()


def test_an_outcome_after_a_post_does_not_decide(served: Served) -> None:
    """The message comes from an address that stores nothing, and the post goes to a topic."""
    work, sender = Work(served), Outbox(served.peer(), "chat/outcome")
    inbox = Inbox(work.peer, "chat/outcome", 2)
    sender.credit()
    delivery = sender.post(message(b"given"))
    transfer = inbox.transfer()
    with together(work.peer):
        kept = work.post(b"first", ORDERS, settled=False)
        work.peer.disposition(transfer.delivery_id, in_transaction(work.txn_id, "accepted"))
        discharging = work.discharging()
    error = work.controller.outcome(discharging)["error"]
    assert error["condition"] == "amqp:transaction:rollback"
    assert "amqp:not-implemented: this transaction already works on topics" in error["description"]
    assert work.outcome(kept) in ("accepted", "released")
    assert sender.outcome(delivery).name == "modified"


@pytest.mark.parametrize("end", ["commit", "roll back"])
def test_an_outcome_that_waits_for_a_post_is_a_part_of_the_transaction(served: Served, end: str) -> None:
    work, sender = Work(served), Outbox(served.peer(), ORDERS)
    inbox = Inbox(work.peer, ORDERS, 2)
    assert sender.send(message(b"input")).matches("accepted")
    transfer = inbox.transfer()
    with together(work.peer):
        work.post(b"output", SIZES)
        work.peer.disposition(transfer.delivery_id, in_transaction(work.txn_id, "accepted"))
        discharging = work.discharging(fail=end == "roll back")
    assert work.controller.outcome(discharging).matches("accepted")
    if end == "roll back":  # as for each event that was settled in a transaction
        assert sections(inbox.transfer().payload)["data"] == b"input"
    assert inbox.empty()


def test_posts_on_another_link_wait_for_their_turn(served: Served) -> None:
    """A run of them, on a link to the same topic that is open."""
    orders = Inbox(served.peer(), ORDERS)
    work = Work(served)
    direct = Outbox(work.peer, ORDERS, 2)
    direct.credit()
    with together(work.peer):
        posts = [work.post(b"0", ORDERS, settled=False)]
        posts += [work.post(b"%d" % number, ORDERS, settled=False, outbox=direct) for number in range(1, 20)]
        discharging = work.discharging()
    assert work.controller.outcome(discharging).matches("accepted")
    assert bodies(orders, 20) == [b"%d" % number for number in range(20)]
    assert [work.outcome(each) for each in posts] == ["accepted"] * 20


@pytest.mark.parametrize("how", ["discharge", "detach"])
def test_a_rollback_leaves_nothing_behind(served: Served, how: str) -> None:
    """Posts that wait are released, and the destination serves what comes later."""
    orders = Inbox(served.peer(), ORDERS)
    work = Work(served)
    with together(work.peer):
        posts = [work.post(b"lost", to, settled=False) for to in (ORDERS, ORDERS, SIZES)]
        discharging = work.discharging(fail=True) if how == "discharge" else None
        if discharging is None:
            work.peer.detach(0)
    assert [work.outcome(each) for each in posts] == ["released"] * 3
    if discharging is not None:
        assert work.controller.outcome(discharging).matches("accepted")
    assert work.outbox.send(message(b"later", to=ORDERS)).matches("accepted")
    assert bodies(orders, 1) == [b"later"]
    assert orders.empty()


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("what", ["sender", "controller", "connection"])
def test_posts_outlive_their_link_and_a_commit_its_controller(served: Served, what: str, settled: bool) -> None:
    """As on any link: what came before the detach is in the transaction, and so is a discharge."""
    orders, sizes = Inbox(served.peer(), ORDERS), Inbox(served.peer(), SIZES)
    work = Work(served)
    with together(work.peer):
        for number in range(3):
            work.post(b"%d" % number, (ORDERS, SIZES, ORDERS)[number], settled=settled)
        if what == "sender":
            work.peer.detach(1)
        discharging = work.discharging()
        if what == "controller":
            work.peer.detach(0)
    if what == "connection":
        work.peer.disconnect()
    elif what == "sender":
        assert work.controller.outcome(discharging).matches("accepted")
    assert bodies(orders, 2) == [b"0", b"2"]
    assert bodies(sizes, 1) == [b"1"]


@pytest.mark.row("AT-2.2.2-12")
def test_what_comes_after_a_discharge_that_waits_is_not_in_the_transaction(served: Served) -> None:
    """Not even a rollback."""
    orders = Inbox(served.peer(), ORDERS)
    work = Work(served)
    with together(work.peer):
        work.post(b"in time", ORDERS)
        discharging = work.discharging()
        again = work.discharging(fail=True)
        late = work.post(b"late", ORDERS, settled=False)
    assert work.controller.outcome(discharging).matches("accepted")
    assert work.controller.outcome(again)["error"]["condition"] == "amqp:transaction:unknown-id"
    state = work.outbox.outcome(late)
    assert (state["outcome"] if state.name == "transactional_state" else state)["error"]["condition"] == (
        "amqp:transaction:unknown-id"
    )
    assert bodies(orders, 1) == [b"in time"]
    assert orders.empty()
