"""Links that share readers and chunks: each sees its partition whole, in order and once, whatever happens when.

A scripted reader stands for the thread with the Kafka client: it obeys commands and hands over records in batches.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from bridges.kafka.consume.poll import Key
from bridges.kafka.consume.reader import Fetched, ReaderOwner
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.held.logs import AHEAD, QUEUE, LogShare
from tests.support.plugins.examples import examples

TOPIC = "orders"
END = 400
# Every third offset holds no record, as after compaction or a transaction.
OFFSETS = [offset for offset in range(2 * END) if offset % 3]


class Log:
    """How far the log goes by now."""

    end = END

    def offsets(self, begin: int) -> list[int]:
        """The records from `begin` on."""
        return [offset for offset in OFFSETS if begin <= offset < self.end]


class Record:
    """What the gateway reads of a Kafka client's message."""

    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 2, self._offset

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d" % self._offset

    def __len__(self) -> int:
        return 3


class ScriptedReader:
    """Holds positions, and hands over the next records when the script says so."""

    def __init__(self, owner: ReaderOwner, log: Log) -> None:
        self.owner, self.log = owner, log
        self.positions: dict[Key, int] = {}
        self.told: dict[Key, int] = {}
        self.resting: set[Key] = set()
        self.closed, self.stopped, self.serial = False, False, 0

    def start(self) -> None: ...
    def set_filtered(self, key: Key, filtered: bool) -> None: ...

    def add(self, key: Key, position: int) -> int:
        assert key not in self.positions, "one position per client and partition"
        self.positions[key] = position
        self.told.pop(key, None)
        self.serial += 1
        return self.serial

    def remove(self, key: Key) -> None:
        del self.positions[key]
        self.resting.discard(key)
        self.serial += 1

    def pause(self, key: Key, paused: bool) -> None:
        (self.resting.add if paused else self.resting.discard)(key)

    def gate(self, *, closed: bool) -> None:
        self.closed = closed

    def stop(self) -> None:
        self.stopped = True

    def hand_over(self, count: int) -> bool:
        """One batch; False when there is nothing to hand over."""
        if self.closed or self.stopped:
            return False
        fetched = Fetched(self.serial, {}, {}, {})
        for key, position in self.positions.items():
            if key in self.resting:
                continue
            found = self.log.offsets(position)[:count]
            if found:
                fetched.records[key] = [Record(key[1], offset) for offset in found]
                self.positions[key] = found[-1] + 1
            elif self.told.get(key) != self.log.end:
                fetched.ends[key] = self.positions[key] = self.told[key] = self.log.end
        if fetched.records or fetched.ends:
            self.owner.arrived(self, fetched)  # type: ignore[arg-type]
            return True
        return False


class Link:
    """A link on one partition that reads while it has credit."""

    def __init__(self, streams: FetchScheduler, partition: int, position: int) -> None:
        self.streams, self.position, self.begin = streams, position, position
        self.log = streams.join(TOPIC, partition, self)
        self.credit, self.waits, self.gone = 0, False, False
        self.seen: list[int] = []

    def arrived(self, partition: int) -> None:
        assert self.waits, "woken twice"
        self.waits = False
        self.pump()

    def lost(self, partition: int, low: int) -> None:
        self.position = low
        self.arrived(partition)

    def failed(self, error: AmqpError) -> None:
        self.leave()

    def pump(self) -> None:
        while self.credit and not self.waits and not self.gone:
            batch = self.log.take(self.position, self)
            if batch is None:
                self.waits = True
                return
            assert batch.start <= self.position < batch.end
            events = [event for event in batch.selected(None) if event.offset >= self.position]
            taken = events[: self.credit]
            self.seen += [event.offset for event in taken]
            self.credit -= len(taken)
            self.position = events[len(taken)].offset if len(taken) < len(events) else batch.end

    def grant(self, credit: int) -> None:
        self.credit += credit
        self.pump()

    def leave(self) -> None:
        if not self.gone:
            self.gone = True
            self.streams.leave(self.log, self, self.position)

    def check(self, log: Log) -> None:
        """What it saw is what the log holds from its begin on, as far as it came."""
        assert self.seen == log.offsets(self.begin)[: len(self.seen)]


class House:
    """Streams over scripted readers, and their links."""

    def __init__(self, readers: int, cache: int, ahead: int = AHEAD) -> None:
        self.log = Log()
        self.scripted: list[ScriptedReader] = []
        self.soon: list[Any] = []
        self.later: list[Any] = []
        self.links: list[Link] = []
        self.streams = FetchScheduler(
            self._new,  # type: ignore[arg-type]
            lambda call, *arguments: self.soon.append((call, arguments)),
            lambda _, call, *arguments: self.later.append((call, arguments)),
            share=LogShare(cache, ahead, readers, QUEUE),
            trouble=lambda: None,
            gone=lambda topic: None,
        )

    def _new(self, owner: ReaderOwner) -> ScriptedReader:
        self.scripted.append(ScriptedReader(owner, self.log))
        return self.scripted[-1]

    def turn(self) -> None:
        """The loop's next turn."""
        soon, self.soon = self.soon, []
        for call, arguments in soon:
            call(*arguments)

    def link(self, position: int, credit: int) -> Link:
        """A link on partition 0 that goes on reading as far as its credit goes."""
        link = Link(self.streams, 0, position)
        link.grant(credit)
        return link

    def settle(self) -> None:
        """Everything that can be read is read, however long that takes."""
        for _ in range(10_000):
            handed = [reader.hand_over(50) for reader in self.scripted]
            if not any(handed) and not self.soon:
                if not self.later:
                    return
                self.soon, self.later = self.later, []
            self.turn()
        raise AssertionError("the readers never come to rest")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.integers(0, 1), st.integers(0, END)),
        st.tuples(st.just("grant"), st.integers(0, 9), st.integers(1, 300)),
        st.tuples(st.just("leave"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 9), st.integers(1, 60)),
        st.tuples(st.just("produce"), st.just(0), st.integers(1, 50)),
    ),
    max_size=40,
)


# A client that two partitions share: one rests with chunks that its link has passed, and the link waits for the next.
RESTS = [
    ("attach", 0, 51), ("attach", 1, 77), ("attach", 0, 162), ("leave", 0, 0), ("grant", 7, 244), ("attach", 1, 20),
    ("read", 0, 13), ("leave", 9, 0), ("attach", 0, 363), ("read", 8, 8), ("read", 5, 36), ("grant", 7, 265),
    ("read", 4, 8), ("read", 1, 30), ("read", 0, 29), ("read", 9, 59),
]  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.integers(1, 3), st.sampled_from([1, 20_000, 1 << 30]))
@example(RESTS, 2, 60_000)
def test_every_link_sees_its_partition_whole_in_order_and_once(
    steps: list[tuple[str, int, int]], readers: int, cache: int
) -> None:
    house = House(readers, cache, cache)
    for step, which, argument in steps:
        if step == "attach":
            house.links.append(Link(house.streams, which, argument))
        elif step == "produce":
            house.log.end = min(house.log.end + argument, 2 * END)
        elif step == "read":
            if house.scripted:
                house.scripted[which % len(house.scripted)].hand_over(argument)
            house.turn()
        elif house.links:
            link = house.links[which % len(house.links)]
            if not link.gone:
                link.grant(argument) if step == "grant" else link.leave()
        for link in house.links:
            link.check(house.log)
        assert len(house.streams.readers) <= readers + sum(reader.stopped for reader in house.scripted)
    for link in house.links:
        if not link.gone:
            link.grant(2 * END)
    house.settle()
    house.log.end += 10
    house.settle()
    for link in house.links:
        if not link.gone:
            assert link.seen == house.log.offsets(link.begin), "came to the end"
    assert house.streams.states()["streams"] == len({link.log.key for link in house.links if not link.gone})


def test_links_at_one_place_share_reader_chunk_and_encoded_event() -> None:
    house = House(4, 1 << 20)
    first, second = house.link(0, 1), house.link(0, 1)
    picked: list[Any] = []
    house.settle()
    batch = first.log.find(0)
    assert batch is not None
    picked += [batch.selected(None)[0], batch.selected(None)[0]]
    assert picked[0] is picked[1]
    assert len(house.scripted) == 1
    assert first.seen == second.seen == [1]


def test_a_link_without_credit_stops_its_stream_after_two_chunks() -> None:
    house = House(4, 1 << 20)
    link = Link(house.streams, 0, 0)
    link.grant(1)
    for _ in range(10):
        house.scripted[0].hand_over(10)
    assert house.scripted[0].closed
    assert house.scripted[0].positions[TOPIC, 0] <= OFFSETS[40]
    link.grant(END)
    house.settle()
    assert link.seen == house.log.offsets(0)


def test_with_the_last_link_goes_the_reader() -> None:
    house = House(4, 1 << 20)
    links = [Link(house.streams, partition, 0) for partition in (0, 1)]
    for link in links:
        link.grant(5)
    links[0].leave()
    house.turn()
    assert not house.scripted[0].stopped
    links[1].leave()
    house.turn()
    assert house.scripted[0].stopped
    assert not house.scripted[0].positions


def test_what_was_read_for_a_link_that_left_is_read_no_further() -> None:
    house = House(4, 1 << 20)
    house.link(231, END)
    left = house.link(0, 1)
    house.settle()
    assert house.streams.states()["streams"] == 2
    left.leave()
    house.settle()
    assert [reader.stopped for reader in house.scripted].count(False) == house.streams.states()["streams"] == 1


def test_a_stream_that_its_links_have_passed_on_chunks_of_another_ends() -> None:
    """A batch holds what is at hand: the second client's ends beyond what the first has read for nobody yet."""
    house = House(4, 1)
    house.link(300, END)
    slow = house.link(0, 1)
    first, second = house.scripted
    assert [second.hand_over(4) for _ in range(4)] == [True, True, True, False], "two chunks that nobody picked"
    first.hand_over(60)  # and the cache keeps what was used last
    passing = house.link(0, END)
    house.scripted[2].hand_over(60)
    assert passing.position > second.positions[TOPIC, 0]
    slow.grant(2 * END)
    house.settle()
    assert passing.seen == slow.seen == house.log.offsets(0)
    assert [reader.stopped for reader in house.scripted].count(False) == house.streams.states()["streams"] == 1


def test_who_waits_at_the_end_lets_others_have_their_turn() -> None:
    """Whoever came first would begin again at once, come to the end and begin again."""
    house = House(1, 1 << 20)
    links = []
    for two in ((END - 62, END - 9), (208, 204)):
        links += [house.link(position, END) for position in two]
        house.settle()
    assert [link.seen for link in links] == [house.log.offsets(link.begin) for link in links]
    assert house.streams.states()["turns"] == 0


def test_who_waits_for_a_client_gets_it_from_a_link_that_makes_no_use_of_it() -> None:
    """Its stream has served nothing between two looks; what comes first goes on when there is a client again."""
    house = House(1, 1)
    resting = house.link(0, 1)
    assert house.scripted[0].hand_over(1)
    waiting = house.link(200, END)
    assert house.scripted[0].positions[TOPIC, 0] < 200, "the only client reads for the first"
    house.settle()
    assert waiting.seen == house.log.offsets(200)
    assert resting.seen == house.log.offsets(0)[:1]
    assert house.streams.states()["turns"] == 0


def test_what_lies_behind_a_link_that_is_alone_is_let_go() -> None:
    house = House(1, 1 << 20)
    first = Link(house.streams, 0, 0)
    first.grant(END)
    house.settle()
    assert first.seen == house.log.offsets(0)
    assert house.streams.states()["cached_chunks"] <= 4
    second = house.link(0, END)
    house.settle()
    assert second.seen == house.log.offsets(0)


def test_who_waited_before_what_retention_took_goes_on_at_the_oldest() -> None:
    house = House(4, 1 << 20)
    link = Link(house.streams, 0, 0)
    link.grant(END)
    reader = house.scripted[0]
    reader.positions[TOPIC, 0] = 100
    reader.owner.arrived(reader, Fetched(reader.serial, {}, {}, {(TOPIC, 0): 100}))  # type: ignore[arg-type]
    house.settle()
    assert link.seen == house.log.offsets(100)


def test_what_was_read_for_a_position_that_was_left_is_not_taken_for_the_next() -> None:
    house = House(1, 1 << 20)
    old = Link(house.streams, 0, 300)
    old.grant(1)
    reader = house.scripted[0]
    late = Fetched(reader.serial, {(TOPIC, 0): [Record(0, 301)]}, {}, {})
    old.leave()
    new = Link(house.streams, 0, 0)
    new.grant(END)
    reader.owner.arrived(reader, late)  # type: ignore[arg-type]
    house.settle()
    assert new.seen == house.log.offsets(0)


def test_a_refusal_of_kafka_reaches_every_link_of_the_topic() -> None:
    house = House(1, 1 << 20)
    links = [Link(house.streams, partition, 0) for partition in (0, 1)]
    house.streams._failed(TOPIC, AmqpError(INTERNAL_ERROR, "no"))
    assert [link.gone for link in links] == [True, True]
