"""Rates of messages: differences of the counts of links between two looks, and nothing while nobody watches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.admin.live.rates import WATCHED, FlowKey, Rates


def link(count: int = 0, connector: str = "", rule: str | None = "chat/**") -> Any:
    engine = SimpleNamespace(peer=SimpleNamespace(connector=connector))
    decision = None if rule is None else SimpleNamespace(rule=rule)
    return SimpleNamespace(scope="edge", engine=engine, decision=decision, incoming=True, counted=count, transfers=0)


def test_what_a_link_has_carried_between_two_looks_is_its_rate() -> None:
    rates, busy, idle = Rates(), link(100), link(7)
    rates.watch(0.0)
    for now, key in ((0.0, (1, 1)), (2.0, (1, 2))):
        rates.look((1, 1), busy)
        rates.look((1, 3), idle)
        if now:
            rates.look(key, link(6))  # it has come meanwhile
        rates.finish(now, {("main", "accepted"): int(5 * now)})
        busy.counted, busy.transfers = 110, 10  # a scrape has taken what it had counted
    assert [rates.of(key) for key in ((1, 1), (1, 2), (1, 3))] == [10.0, 3.0, 0.0]
    assert rates.busiest() == [(1, 1), (1, 2)]
    assert rates.flows == {FlowKey("edge", "", "chat/**", "in"): (3, 13.0)}
    assert rates.events == {("main", "accepted"): 5.0}


def test_the_links_of_a_connector_are_counted_together_whatever_decided_them() -> None:
    rates = Rates()
    for now in (0.0, 1.0):
        for serial, rule in enumerate(("a", "b", None)):
            rates.look((1, serial), link(int(10 * now), "far", rule))
        rates.finish(now, {})
    assert rates.flows == {FlowKey("edge", "far", "", "in"): (3, 30.0)}


def test_nothing_is_known_before_two_looks_or_after_nobody_has_looked_for_long() -> None:
    rates = Rates()
    assert not rates.wanted(0.0)
    rates.watch(0.0)
    assert rates.wanted(WATCHED)
    rates.look((1, 1), link(5))
    rates.finish(0.0, {})
    assert rates.of((1, 1)) is None
    rates.look((1, 1), link(9))
    rates.finish(1.0, {})
    assert rates.of((1, 1)) == 4.0
    assert not rates.wanted(WATCHED + 1)
    assert (rates.of((1, 1)), rates.flows, rates.busiest()) == (None, {}, [])
