"""How far rules are behind: the slowest link, and the slowest group, without the names of groups."""

from __future__ import annotations

import math

from gateway.server.metrics.lag import Reader, slowest

RULE = "edge", "events/{topic}"
OTHER = "edge", "logs/{topic}"
ORDERS, LOGS = ("main", "orders"), ("main", "logs")


def test_a_rule_shows_its_slowest_link_and_its_slowest_group() -> None:
    readers = [
        Reader(RULE, ORDERS, None, {0: 90, 1: 100}),
        Reader(RULE, ORDERS, "g", {0: 95}),
        Reader(RULE, ORDERS, "g", {1: 60}),
        Reader(RULE, ORDERS, "h", {0: 80}),
        Reader(OTHER, LOGS, None, {0: 7}),
    ]
    links, groups = slowest(readers, {ORDERS: {0: 100, 1: 100}, LOGS: {0: 7}})
    assert links == {RULE: 40, OTHER: 0}
    assert groups == {RULE: 45}


def test_what_kafka_does_not_say_is_unknown_and_no_lag_is_negative() -> None:
    readers = [Reader(RULE, ORDERS, "g", {0: 5}), Reader(RULE, LOGS, "g", {0: 5}), Reader(OTHER, LOGS, None, {0: 9})]
    links, groups = slowest(readers, {ORDERS: None, LOGS: {0: 3}})
    assert math.isnan(links[RULE])
    assert math.isnan(groups[RULE])
    assert links[OTHER] == 0
