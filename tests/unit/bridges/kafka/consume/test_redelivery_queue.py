"""What is kept of events that a peer gave back is charged, whatever becomes of its link (found as B3)."""

from __future__ import annotations

from bridges.kafka.links.redelivery_queue import OpenRetirements, RedeliveryQueue
from bridges.kafka.records.event import EncodedEvent
from gateway.transactions.transaction import Transaction


def event(offset: int, partition: int = 0) -> EncodedEvent:
    return EncodedEvent(bytes(10_000), partition, offset)


class Charged:
    def __init__(self) -> None:
        self.size = 0
        self.kept = RedeliveryQueue(self.more)

    def more(self, size: int) -> None:
        self.size += size


def test_events_to_be_sent_again_are_charged_until_they_are_sent() -> None:
    charged = Charged()
    for offset in (3, 1, 2):
        charged.kept.put(event(offset))
    assert charged.size >= 30_000
    assert [charged.kept.pop().offset for _ in range(3)] == [1, 2, 3]
    assert (charged.size, bool(charged.kept)) == (0, False)


def test_a_partition_that_others_read_is_charged_no_longer() -> None:
    charged = Charged()
    for partition in (0, 1, 0):
        charged.kept.put(event(7, partition))
    one = charged.size // 3
    charged.kept.forget(0)
    assert charged.size == one
    assert charged.kept.pop().partition == 1
    assert charged.size == 0


def test_dead_letters_are_charged_until_they_are_there() -> None:
    charged = Charged()
    for offset in (1, 2):
        charged.kept.add_dead_letter(event(offset))
    assert charged.kept.dead_letter_bytes == charged.size >= 20_000
    charged.kept.remove_dead_letter(event(1))
    assert charged.kept.dead_letter_bytes == charged.size >= 10_000


def test_the_end_of_a_link_gives_back_all_of_it_once() -> None:
    charged = Charged()
    charged.kept.put(event(1))
    charged.kept.add_dead_letter(event(2))
    charged.kept.end()
    assert (charged.size, bool(charged.kept)) == (0, False)
    charged.kept.remove_dead_letter(event(2))
    assert charged.size == 0


def test_events_that_are_settled_in_open_transactions_are_charged_until_these_end() -> None:
    charged: list[int] = []
    retirements = OpenRetirements(charged.append)
    first, second = (Transaction(name, lambda: None, lambda: None) for name in (b"1", b"2"))
    for partition, transaction in ((0, first), (1, first), (1, second)):
        retirements.add(transaction, EncodedEvent(bytes(1000), partition, 7))
    assert ([retirements.of(partition) for partition in range(3)], len(retirements)) == ([1, 2, 0], 3)
    assert sum(charged) == 3 * 2024
    first.discharge(fail=False, then=lambda _: None)
    assert ([retirements.of(partition) for partition in range(3)], len(retirements)) == ([0, 1, 0], 1)
    assert sum(charged) == 2024
    second.discharge(fail=True, then=lambda _: None)
    assert (len(retirements), sum(charged)) == (0, 0)
