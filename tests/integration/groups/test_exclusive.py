"""Partitions and consumer groups on the wire, one gateway process (ES 4; ES-E2E-8 to -10; KM-10)."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.amqp.codec.codec import Byte, Int, Long, Symbol, Uint, Ulong
from tests.support.amqp.members import EPOCH, GROUP, PARTITION, Member, Producer, keep_connected, requested_properties
from tests.support.gateway.gateway import Gateway
from tests.support.gateway.groups import command, group_state, serving, wait_for_waiting
from tests.support.gateway.process import PATIENCE, wait_until

POLICY = """
gateway: {{http: "127.0.0.1:{http}", log: json}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3, solo: 1, queue: 3, deal: 3}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main}}
      - {{match: "pend/{{topic}}", kafka: main, surplus: pend, pending_limit: 2}}
      - {{match: "while/{{topic}}", kafka: main, surplus: pend, pending_timeout: 1s}}
      - {{match: "fixed/{{topic}}", kafka: main, groups: [g1]}}
      - {{match: "closed/{{topic}}", kafka: main, groups: none}}
      - {{match: "assign/{{topic}}", kafka: main, binding: assign}}
      - {{match: "client/{{topic}}", kafka: main, binding: client}}
      - {{match: "some/{{topic}}", kafka: main, partitions: [0, 1]}}
      - {{match: "brief/{{topic}}", kafka: main, epoch_retention: 1s}}
    access: [{{may: [send, receive, info]}}]
"""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    yield from serving(POLICY, "owner", 2 * PATIENCE)


@pytest.fixture
def impatient() -> Iterator[Gateway]:
    yield from serving(POLICY, "owner", 0.2)


@pytest.fixture
def port(gateway: Gateway) -> int:
    return gateway.ports[0]


connections = pytest.fixture(autouse=True)(keep_connected)


def members(port: int, address: str, group: str, count: int, **wanted: Any) -> list[Member]:
    """Attached members of a group."""
    found = [Member(port, address, requested_properties(group, **wanted)) for _ in range(count)]
    for member in found:
        member.attached()
    return found


# -- what the answer says


@pytest.mark.row(
    "ES-4.5-1", "ES-4.5-2", "ES-4.5-6", "ES-4.5-7", "ES-4.5.1-1", "ES-4.6.2-1", "ES-4.6.2-3", "ES-4.6.3-1",
    "ES-4.5.2-2", "ES-4.5.2-3", "ES-4.5-5",
)  # fmt: skip
def test_three_members_get_a_partition_each(port: int) -> None:
    three = members(port, "events/orders", "three", 3)
    assert {member.partition for member in three} == {"0", "1", "2"}
    for member in three:
        assert member.granted.keys() == {PARTITION, GROUP, EPOCH}
        assert type(member.granted[PARTITION]) is Symbol
        assert (type(member.granted[GROUP]), member.granted[GROUP]) == (str, "three")
        assert (type(member.granted[EPOCH]), member.granted[EPOCH]) == (Long, 0)
    named = Member(port, "events/orders", requested_properties(Symbol("named"), "2"))
    assert named.attached().properties == {PARTITION: "2", GROUP: "named", EPOCH: 0}
    other = Member(port, "events/orders", requested_properties("named"))
    other.attached()
    assert other.partition == "0"


@pytest.mark.row("ES-4.5-4", "ES-4.5-5", "ES-4.5-1")
@pytest.mark.parametrize("address", ["events/orders", "assign/orders", "closed/orders", "fixed/orders"])
def test_no_link_belongs_to_a_group_by_itself(port: int, address: str) -> None:
    member = Member(port, address, requested_properties(epoch=3))
    member.attached()
    assert not {GROUP, EPOCH} & member.granted.keys()
    producer = Producer(port, address, group="g1", epoch=1)
    assert not {GROUP, EPOCH} & (producer.answer.properties or {}).keys()


@pytest.mark.row("ES-4-8", "ES-4.4-2")
def test_a_member_gets_the_events_of_its_partition(port: int) -> None:
    three = members(port, "events/orders", "events", 3)
    producer = Producer(port, "events/orders")
    for partition in range(3):
        producer.send(b"a", b"b", partition=partition)
    for member in three:
        member.peer.flow(0, link_credit=10)
        events = member.take(2)
        assert [event[0] for event in events] == [member.partition] * 2
        assert events[0][1] < events[1][1]


@pytest.mark.row("ES-4.5-3", "ES-4.6.2-2")
def test_groups_that_the_policy_names(port: int) -> None:
    error = Member(port, "fixed/orders", requested_properties("gX")).refused("amqp:not-found")
    assert "'gX'" in error["description"]
    Member(port, "fixed/orders", requested_properties("g1")).attached()
    Member(port, "closed/orders", requested_properties("g1")).refused("amqp:not-allowed")


@pytest.mark.row("ES-4.6.2-1", "ES-4.6.3-1", "ES-4.6.1-1")
@pytest.mark.parametrize(
    ("field", "properties"),
    [
        (GROUP, {GROUP: ""}),
        (GROUP, {GROUP: 7}),
        (GROUP, {GROUP: "x" * 256}),
        (GROUP, {GROUP: "a\nb"}),
        (EPOCH, {GROUP: "w", EPOCH: "5"}),
        (EPOCH, {GROUP: "w", EPOCH: Long(-1)}),
        (EPOCH, {GROUP: "w", EPOCH: True}),
        (EPOCH, {GROUP: "w", EPOCH: Ulong(1 << 63)}),
        (PARTITION, {GROUP: "w", PARTITION: Uint(0)}),
    ],
)
def test_wrong_types_are_refused(port: int, field: str, properties: dict[Any, Any]) -> None:
    error = Member(port, "events/orders", properties).refused("amqp:invalid-field")
    assert error["info"]["field"] == field


@pytest.mark.row("ES-4.6.3-1")
@pytest.mark.parametrize("value", [Int(7), Uint(7), Ulong(7), Byte(7), Long(7)])
def test_any_integer_will_do_for_an_epoch(port: int, value: Any) -> None:
    member = Member(port, "events/solo", requested_properties(f"types-{type(value).__name__}", epoch=value))
    member.attached()
    assert (type(member.granted[EPOCH]), member.granted[EPOCH]) == (Long, 7)


# -- too many


@pytest.mark.row("ES-4.5.1-2", "ES-4.5-8")
def test_surplus_members_are_refused(port: int) -> None:
    three = members(port, "events/orders", "surplus", 3)
    Member(port, "events/orders", requested_properties("surplus")).refused("amqp:link:detach-forced")
    freed = three[1].partition
    three[1].close()
    late = Member(port, "events/orders", requested_properties("surplus"))
    late.attached()
    assert late.partition == freed


@pytest.mark.row("ES-4.5.1-3")
def test_surplus_members_wait_in_order(port: int, gateway: Gateway) -> None:
    three = members(port, "pend/queue", "order", 3)
    first = Member(port, "pend/queue", requested_properties("order"))
    wait_for_waiting(gateway, "order", 1)
    second = Member(port, "pend/queue", requested_properties("order"))
    wait_for_waiting(gateway, "order", 2)
    first.quiet()
    freed = three[2].partition
    three[2].close()
    assert first.attached(credit=5).properties[PARTITION] == freed
    producer = Producer(port, "pend/queue")
    producer.send(b"x", partition=int(freed))
    assert first.take(1)[0][0] == freed
    wait_for_waiting(gateway, "order", 1)
    second.quiet()
    three[0].cut()
    second.attached()


@pytest.mark.row("ES-4.5.1-4")
def test_waiting_has_an_end_and_a_limit(port: int, gateway: Gateway) -> None:
    members(port, "pend/queue", "limits", 3)
    for _ in range(2):
        Member(port, "pend/queue", requested_properties("limits"))
    wait_for_waiting(gateway, "limits", 2)
    Member(port, "pend/queue", requested_properties("limits")).refused("amqp:resource-limit-exceeded")
    members(port, "while/queue", "ends", 3)
    began = time.monotonic()
    for member in [Member(port, "while/queue", requested_properties("ends")) for _ in range(2)]:
        assert "within 1 s" in member.refused("amqp:link:detach-forced")["description"]
    assert time.monotonic() - began >= 1


@pytest.mark.row("ES-4.5.1-3")
@pytest.mark.parametrize("leaves", ["detach", "cut"])
def test_who_leaves_while_waiting_is_forgotten(port: int, gateway: Gateway, leaves: str) -> None:
    group = f"leaves-{leaves}"
    three = members(port, "pend/queue", group, 3)
    gone = Member(port, "pend/queue", requested_properties(group))
    wait_for_waiting(gateway, group, 1)
    stays = Member(port, "pend/queue", requested_properties(group))
    wait_for_waiting(gateway, group, 2)
    gone.peer.detach() if leaves == "detach" else gone.cut()
    wait_for_waiting(gateway, group, 1)
    three[0].close()
    stays.attached()


# -- epochs


@pytest.mark.row("ES-4.5.2-4", "ES-4.5-8", "ES-4.5.2-7", "ES-4.5.2-5")
def test_only_a_greater_epoch_takes_a_partition(port: int) -> None:
    owner = Member(port, "events/orders", requested_properties("epoch", 0, 5))
    assert owner.attached(credit=10).properties[EPOCH] == 5
    for epoch in (None, 4, 5):
        Member(port, "events/orders", requested_properties("epoch", 0, epoch)).refused("amqp:resource-locked")
    Member(port, "events/orders", requested_properties("other", 0)).attached()
    winner = Member(port, "events/orders", requested_properties("epoch", 0, 6))
    assert winner.attached(credit=10).properties == {PARTITION: "0", GROUP: "epoch", EPOCH: 6}
    owner.ended("amqp:link:stolen")
    Producer(port, "events/orders").send(b"x", partition=0)
    winner.take(1)
    owner.quiet()


@pytest.mark.row("ES-4.5.2-1", "ES-4.5.2-5")
def test_an_owner_that_reads_nothing_is_displaced(port: int) -> None:
    owner = Member(port, "events/orders", requested_properties("silent", 1))
    owner.attached(credit=10_000)
    Producer(port, "events/orders").send(*[b"x" * 60_000] * 40, partition=1)  # it reads none of them
    winner = Member(port, "events/orders", requested_properties("silent", 1, 1), start="@earliest")
    winner.attached()  # while what the owner was sent still fills its socket
    owner.ended("amqp:link:stolen")
    owner.quiet()


@pytest.mark.row("ES-4.5.2-6", "ES-4.6.3-2")
def test_an_epoch_ends_with_an_orderly_close_and_outlives_a_lost_connection(port: int, gateway: Gateway) -> None:
    owner = Member(port, "events/orders", requested_properties("ends", 2, 6))
    owner.attached()
    owner.close()
    again = Member(port, "events/orders", requested_properties("ends", 2))
    assert again.attached().properties[EPOCH] == 0
    again.close()
    leaves = Member(port, "events/orders", requested_properties("ends", 2, 6))
    leaves.attached()
    leaves.peer.close().until("close")
    assert tries(port, None) == 0
    detached = Member(port, "events/orders", requested_properties("detached", 2, 6))
    detached.attached()
    detached.peer.detach(closed=False).until("detach")
    assert tries(port, 5, "detached") == "amqp:resource-locked"
    lost = Member(port, "events/orders", requested_properties("ends", 2, 6))
    lost.attached()
    lost.cut()
    wait_until(lambda: 2 in group_state(gateway, "events/orders", "ends")["free"], "the loss to be noticed")
    assert tries(port, 5) == "amqp:resource-locked"
    heir = Member(port, "events/orders", requested_properties("ends", 2))
    assert heir.attached().properties[EPOCH] == 6


@pytest.mark.row("ES-4.5.2-6")
def test_an_epoch_of_a_lost_owner_is_forgotten_in_the_end(port: int) -> None:
    lost = Member(port, "brief/orders", requested_properties("forgets", 2, 6))
    lost.attached()
    lost.cut()
    wait_until(lambda: tries(port, 3, "forgets", "brief/orders") == 3, "the epoch to be forgotten")


def tries(port: int, epoch: int | None, group: str = "ends", address: str = "events/orders") -> Any:
    """Attach with an epoch and close; return the epoch in force, or the condition of the refusal."""
    member = Member(port, address, requested_properties(group, 2, epoch))
    answer = member.peer.expect("attach")
    if answer.source is None:
        return member.peer.expect("detach").error["condition"]
    member.close()
    return answer.properties[EPOCH]


@pytest.mark.row("ES-4.6.2-1")
def test_epochs_count_within_their_group(port: int) -> None:
    for group in ("apart-1", "apart-2"):
        Member(port, "events/solo", requested_properties(group, epoch=9)).attached()
        Member(port, "events/solo", requested_properties(group)).refused("amqp:link:detach-forced")
    third = Member(port, "events/solo", requested_properties("apart-3", epoch=1))
    assert third.attached().properties[EPOCH] == 1


def test_an_epoch_takes_the_only_partition_without_naming_it(port: int) -> None:
    owner = Member(port, "events/solo", requested_properties("only", epoch=1))
    owner.attached()
    Member(port, "events/solo", requested_properties("only", epoch=1)).refused("amqp:resource-locked")
    Member(port, "events/solo", requested_properties("only", epoch=2)).attached()
    owner.ended("amqp:link:stolen")


# -- binding


@pytest.mark.row("ES-4-6", "ES-4-11", "ES-4-12", "ES-4.1-3", "ES-4.3-3", "ES-4.3-4", "ES-4.1-4", "ES-4.6.1-2")
def test_three_ways_of_binding(port: int) -> None:
    agnostic = Member(port, "events/orders", {})
    agnostic.attached()
    assert PARTITION not in agnostic.granted
    assigned = [Member(port, "assign/orders", {}) for _ in range(3)]
    assert {member.attached().properties[PARTITION] for member in assigned} == {"0", "1", "2"}
    producer = Producer(port, "assign/orders")
    bound = str(producer.answer.properties[PARTITION])
    reader = Member(port, "events/orders", requested_properties(partition=bound))
    reader.attached(credit=1)
    producer.send(b"mine")
    assert reader.take(1)[0][0] == bound
    error = Member(port, "client/orders", {}).refused("amqp:not-allowed")
    assert PARTITION in error["description"]
    assert Member(port, "client/orders", requested_properties(partition="1")).attached().properties == {PARTITION: "1"}


@pytest.mark.row("ES-4-10", "ES-4.1-2", "ES-4.3-2")
@pytest.mark.parametrize(("partition", "condition"), [("2", "amqp:not-allowed"), ("99", "amqp:not-found")])
def test_partitions_that_are_denied_or_not_there(port: int, partition: str, condition: str) -> None:
    for group in (None, "denied"):
        Member(port, "some/orders", requested_properties(group, partition)).refused(condition)
    with pytest.raises(AssertionError, match="refused"):
        Producer(port, "some/orders", partition=partition)
    two = members(port, "some/orders", "two", 2)
    assert {member.partition for member in two} == {"0", "1"}
    Member(port, "some/orders", requested_properties("two")).refused("amqp:link:detach-forced")


# -- dealing out anew


@pytest.mark.row("ES-4-13", "ES-4.5.1-5", "ES-4.5.1-7")
def test_links_that_were_assigned_end_in_order_and_attach_again(port: int, gateway: Gateway) -> None:
    chosen = Member(port, "pend/deal", requested_properties("deal", 1))
    chosen.attached(credit=10)
    holds, idle = (
        Member(port, "pend/deal", requested_properties("deal")),
        Member(port, "pend/deal", requested_properties("deal")),
    )
    holds.attached(credit=10)
    idle.attached()
    plain = Member(port, "pend/deal", requested_properties(partition=holds.partition))
    plain.attached(credit=10)
    producer = Producer(port, "pend/deal")
    producer.send(b"1", b"2", partition=int(holds.partition))
    (_, first, _), _ = holds.take(2, settle=False)
    done = command(gateway, "--address", "pend/deal", "--group", "deal", "--rebalance")
    assert done.returncode == 0, done.stderr
    assert "partition 1: owned through this gateway, epoch 0, chosen by the client" in done.stdout
    idle.ended("amqp:link:detach-forced")
    producer.send(b"3", partition=int(holds.partition))
    plain.take(3)  # the gateway has it, and the link that drains
    holds.quiet()  # receives nothing new, and does not end before its outcomes
    for delivery in holds.transfers:
        holds.peer.disposition(delivery, "accepted")
    holds.peer.expect("detach", closed=True, error="amqp:link:detach-forced")
    holds.peer.detach()
    chosen.quiet()
    again = members(port, "pend/deal", "deal", 2)
    assert {member.partition for member in (*again, chosen)} == {"0", "1", "2"}
    (heir,) = (member for member in again if member.partition == holds.partition)
    heir.peer.flow(0, link_credit=10)
    ((_, offset, payload),) = heir.take(1)
    assert offset == first + 2
    assert payload.endswith(b"\x53\x75\xa0\x013")


def test_an_owner_that_answers_nothing_does_not_hold_up_the_others(impatient: Gateway) -> None:
    port = impatient.ports[0]
    stuck = Member(port, "pend/deal", requested_properties("stuck"))
    stuck.attached(credit=10)
    Producer(port, "pend/deal").send(b"1", partition=int(stuck.partition))
    stuck.take(1, settle=False)
    assert command(impatient, "--address", "pend/deal", "--group", "stuck", "--rebalance").returncode == 0
    stuck.ended("amqp:link:detach-forced")


def test_what_operators_see(port: int, gateway: Gateway) -> None:
    Member(port, "events/orders", requested_properties("seen", 2, 4)).attached()
    found = group_state(gateway, "events/orders", "seen")
    (owner,) = found["owners"]
    assert (owner["partition"], owner["epoch"], owner["here"], owner["chosen_by"]) == (2, 4, True, "client")
    assert (found["free"], found["waiting"]) == ([0, 1], 0)
    assert gateway.get("/groups?scope=edge&address=nowhere&group=g")[0] == 404
    assert gateway.get("/groups?scope=edge")[0] == 400
    wrong = command(gateway, "--address", "nowhere", "--group", "g")
    assert (wrong.returncode, wrong.stderr) == (1, "'nowhere' is not an event log in scope 'edge'\n")


def test_a_web_page_cannot_deal_anew(gateway: Gateway) -> None:
    url = f"http://{gateway.http}/groups/rebalance?scope=edge&address=events/orders&group=g"
    request = urllib.request.Request(url, method="POST", headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, timeout=PATIENCE)
