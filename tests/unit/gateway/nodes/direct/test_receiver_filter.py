"""Filters at nodes that store nothing: what an attach leaves behind, and who takes a message."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from gateway.errors import AmqpError
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import TRUE
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.direct.receiver_filter import message_test, source_of
from gateway.nodes.direct.receivers import Receivers
from tests.support.amqp.messages import message


def receiving(text: str) -> Any:
    """As much of a link as an attach looks at before it is answered."""
    given = {Symbol("f"): Described(Symbol("amqp:sql-filter"), text)}
    return SimpleNamespace(incoming=False, source=SimpleNamespace(filter=given), filter_rules=None, scope="edge")


def test_a_node_made_for_a_link_that_is_refused_goes_again() -> None:
    gone: list[DirectNode] = []
    node = DirectNode("chat/x", lambda origin, target: None, unused=gone.append)
    with pytest.raises(AmqpError, match="found the end"):
        node.attach(receiving("color ="))
    assert gone == [node]
    assert not node.receiver_endpoints


def test_no_filter_is_no_test() -> None:
    assert message_test(TRUE) is None
    assert message_test(parse_sql("x = 1")) is not None


@pytest.mark.row("FX-2-1")
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (message(app={"x": 1}), ["one", "all"]),
        (message(app={"x": 2}), ["not one", "all"]),
        (b"\xff\xff", ["all"]),
        (b"", ["all"]),
    ],
)
def test_who_takes_a_message(data: bytes, found: list[str]) -> None:

    class End(SimpleNamespace):
        __hash__ = object.__hash__

    filters = {"one": "x = 1", "not one": "NOT x = 1", "all": None, "two": "x = 2 AND y = 3"}
    receivers, link = Receivers(), SimpleNamespace(context=None, target=SimpleNamespace(capabilities=()))
    for name, text in filters.items():
        predicate = text and parse_sql(text)
        receivers.join(End(name=name, link=link, predicate=predicate))  # type: ignore[arg-type]
    groups = receivers.matching_groups(source_of(data))
    assert {receiver.name for group in groups for receiver in group.members} == set(found)  # type: ignore[attr-defined]
