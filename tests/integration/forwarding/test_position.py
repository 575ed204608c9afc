"""How far a bridge has read a remote log: what it asks for, and what it leaves out (ES-E2E-14, KM-24)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.crossing import Inbox
from tests.support.gateway.far import Far
from tests.support.gateway.process import wait_until
from tests.support.kafka.remote_log import (
    STREAMS,
    Fars,
    accept_receiver,
    body,
    credit,
    event,
    lasting,
    moved,
    offset,
    outcome,
    position,
)
from tests.support.servers.servers import Redis


@pytest.mark.row("ES-5.1.1-2")
def test_the_next_link_asks_for_what_comes_after_the_last_accepted_offset(fars: Fars) -> None:
    far = fars(partition="'0'").accept(STREAMS)
    attach, handle = accept_receiver(far)
    assert position(attach) == "@latest"
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    for number in range(4):
        far.peer.transfer(event(number, "0"), handle)
    ids = [inbox.transfer().delivery_id for _ in range(4)]
    for number in (0, 1, 3):  # 2 is still under way
        inbox.peer.disposition(ids[number], "accepted")
        far.peer.until("disposition", role=RECEIVER)
    far.peer.detach(handle, error=frames.error("amqp:link:detach-forced", "again"))
    again, _ = accept_receiver(far)
    assert position(again) == offset(1)


def test_a_log_that_names_no_partition_is_asked_for_what_follows_in_the_one_of_the_policy(fars: Fars) -> None:
    """Neither its answer nor its events do; from `@latest` on, what comes meanwhile would be lost."""
    far = fars(partition="'0'").accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    moved(far, attach, handle, inbox, 1, 2)
    far.peer.detach(handle, error=frames.error("amqp:link:detach-forced", "again"))
    again, _ = accept_receiver(far)
    assert position(again) == offset(2)


def test_a_terminus_that_stays_is_found_again_under_its_name(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far, source=lasting())
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    moved(far, attach, handle, inbox, 0)
    far.peer.disconnect()
    far.accept(STREAMS)
    again, _ = accept_receiver(far, source=lasting())
    assert again.name == attach.name == "bridge-core-b"
    policy = far.gateway.policy.read_text()
    far.gateway.reload(policy.replace("name: b,", "name: b, credit: 7,"))
    assert not far.peer.until("detach").closed, "a closed link would end its terminus"


@pytest.mark.row("ES-5.1.1-2")
def test_the_offset_outlives_a_kill_as_it_came(fars: Fars, redis_server: Redis) -> None:
    redis_server.empty()
    far = fars(state=redis_server.url, partition="'0'").accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    far.peer.transfer(event(5, "0"), handle)
    assert body(inbox.take()) == 5
    assert outcome(far).matches("accepted")
    wait_until(lambda: offset(5) in everything(redis_server), "the offset in the shared state")
    killed(far, redis_server)
    again, _ = accept_receiver(far.accept(STREAMS))
    assert position(again) == offset(5)


def test_after_a_kill_a_link_that_sees_all_partitions_misses_nothing(fars: Fars, redis_server: Redis) -> None:
    """What was under way comes again, and so does the past of partitions of which nothing was moved; the rest not."""
    redis_server.empty()
    far = fars(state=redis_server.url).accept(STREAMS)
    attach, handle = accept_receiver(far)
    assert position(attach) == "@latest"
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    for number, partition in ((3, "0"), (4, "0"), (5, "0"), (3, "1")):
        far.peer.transfer(event(number, partition), handle)
    ids = [inbox.transfer().delivery_id for _ in range(4)]
    for number in (0, 2, 3):  # 4 of partition 0 is still under way: only 3 is done with there
        inbox.peer.disposition(ids[number], "accepted")
    wait_until(lambda: everything(redis_server).count(offset(3)) == 2, "the offsets in the shared state")
    killed(far, redis_server)
    again, handle = accept_receiver(far.accept(STREAMS))
    assert position(again) == "@earliest"
    inbox = Inbox(far.core, "here/1")
    credit(far, again)
    log = [(2, "0"), (3, "0"), (4, "0"), (5, "0"), (2, "1"), (3, "1"), (4, "1"), (1, "2")]
    for number, partition in log:
        far.peer.transfer(event(number, partition), handle)
    assert [body(inbox.take()) for _ in range(4)] == [4, 5, 4, 1]
    assert inbox.empty()


def killed(far: Far, redis: Redis) -> None:
    """Kill the gateway and start it again; its lease, which no pause may end before, ends now."""
    far.gateway.kill()
    redis.command("DEL", "scopegate:members")
    far.gateway.restart()


def everything(redis: Redis) -> str:
    """What the records of termini hold."""
    return "".join(redis.command("HVALS", key) for key in redis.command("KEYS", "scopegate:terminus:*").split())


def test_a_log_that_keeps_no_position_is_read_again_and_what_was_moved_left_out(fars: Fars) -> None:
    """One offset says nothing of the other partitions of a link that sees them all."""
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    for number, partition in ((0, "0"), (1, "0"), (0, "1")):
        far.peer.transfer(event(number, partition), handle)
        inbox.take()
        outcome(far)
    far.peer.detach(handle, error=frames.error("amqp:link:detach-forced", "again"))
    again, handle = accept_receiver(far)
    assert position(again) == "@earliest"
    credit(far, again)
    for number, partition in ((0, "0"), (1, "0"), (0, "1"), (2, "0"), (1, "1")):
        far.peer.transfer(event(number, partition), handle)
    assert [body(inbox.take()) for _ in range(2)] == [2, 1]


@pytest.mark.parametrize("partition", [None, "'0'"], ids=["all", "bound"])
def test_a_log_that_forgot_its_terminus_is_not_copied_again(fars: Fars, partition: str | None) -> None:
    """It says each time that it keeps the position, and begins with its first event all the same."""
    far = fars(**({} if partition is None else {"partition": partition})).accept(STREAMS)
    attach, handle = accept_receiver(far, source=lasting())
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    for number in (1, 2, 3):
        far.peer.transfer(event(number, "0"), handle)
        assert body(inbox.take()) == number
        outcome(far)
    far.peer.detach(handle, error=frames.error("amqp:link:detach-forced", "restart"))
    again, handle = accept_receiver(far, source=lasting())
    assert position(again) == ("@earliest" if partition is None else offset(3))
    credit(far, again)
    for number in (1, 2, 3, 4):
        far.peer.transfer(event(number, "0"), handle)
    assert body(inbox.take()) == 4


def test_a_log_that_was_deleted_is_another_one(fars: Fars) -> None:
    """Offsets of the old log say nothing of the new one: its events are not left out."""
    far = fars(start="earliest").accept(STREAMS)
    attach, handle = accept_receiver(far, source=lasting())
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    moved(far, attach, handle, inbox, 3)
    far.peer.detach(handle, error=frames.error("amqp:resource-deleted", "gone"))
    again, handle = accept_receiver(far, source=lasting())
    assert position(again) == "@earliest"
    credit(far, again)
    moved(far, again, handle, inbox, 1, 2)
