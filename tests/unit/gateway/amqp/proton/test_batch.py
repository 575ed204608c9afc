"""The loops over proton's functions: what they refuse, and that they are for this version of proton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cproton_ffi import lib

from gateway.amqp.proton import _batch, batch
from tests.support.amqp.frames import composite, framed, performative
from tests.support.amqp.messages import message


@pytest.mark.parametrize(
    "call",
    [
        lambda: _batch.send(1, 2, b""),  # type: ignore[call-arg]
        lambda: _batch.send_all(1, 0, (), None),  # type: ignore[arg-type]
        lambda: _batch.send_all(1, 0, [()], None),
        lambda: _batch.send_all(1, 0, [b"no tuple"], _batch.Unsettled(None)),
        lambda: _batch.send_all(1, 0, [("text",)], _batch.Unsettled(None)),
        lambda: _batch.send_all(1, 0, [], {}),  # type: ignore[arg-type]
        lambda: _batch.forward(1, 0, [], 0, 0, None, _batch.Unsettled(None)),  # type: ignore[call-arg]
        lambda: _batch.forward(1, 0, (), 0, 0, None, _batch.Unsettled(None), 1),  # type: ignore[arg-type]
        lambda: _batch.forward(1, 0, [], 0, 0, None, None, 1),  # type: ignore[arg-type]
        lambda: _batch.forward(1, 0, [], 0, 1, None, _batch.Unsettled(None), 1),
        lambda: _batch.forward(1, 0, [], -1, 0, None, _batch.Unsettled(None), 1),
        lambda: _batch.forward(1, 0, [None], 0, 1, None, _batch.Unsettled(None), 1),  # type: ignore[list-item]
        lambda: _batch.forward(1, 0, [(1, "text", False)], 0, 1, None, _batch.Unsettled(None), 1),  # type: ignore[list-item]
        lambda: _batch.forward(1, 0, [(1, b"", False)], 0, 1, [], _batch.Unsettled(None), 1),
        lambda: _batch.forward(1, 0, [(1, b"", False)], 0, 1, ["text"], _batch.Unsettled(None), 1),  # type: ignore[list-item]
        lambda: _batch.send(1, 2, "text", None, None),  # type: ignore[arg-type]
        lambda: _batch.send("one", 2, b"", None, None),  # type: ignore[arg-type]
        lambda: _batch.drain_events(1, {}, {}, 1),  # type: ignore[call-arg]
        lambda: _batch.drain_events(1, [], {}, 1, [], b""),  # type: ignore[arg-type]
        lambda: _batch.drain_events(1, {}, {}, 1, [], "text"),  # type: ignore[arg-type]
        lambda: _batch.take_output(1, None),  # type: ignore[arg-type]
        lambda: _batch.take_output("one", _batch.Tally()),  # type: ignore[arg-type]
        lambda: _batch.measure_memory(_batch.Tally(), [], 0),  # type: ignore[arg-type]
        lambda: _batch.measure_memory(_batch.Tally(), {"one": None}, 0),  # type: ignore[dict-item]
        lambda: _batch.measure_memory(_batch.Tally(), {}, "none"),  # type: ignore[arg-type]
        lambda: _batch.measure_memory(None, {}, 0),  # type: ignore[arg-type]
        lambda: _batch.Unsettled(),  # type: ignore[call-arg]
        lambda: _batch.Unsettled(None, several=True),  # type: ignore[call-arg]
        lambda: "one" in _batch.Unsettled(None),
        lambda: _batch.Unsettled(None).take("one"),  # type: ignore[arg-type]
        lambda: _batch.accept("one"),  # type: ignore[arg-type]
        lambda: _batch.accept_all((1,)),  # type: ignore[arg-type]
        lambda: _batch.accept_all(["one"]),  # type: ignore[list-item]
        lambda: _batch.same_state([], 0),
        lambda: _batch.same_state([5], 0),  # type: ignore[list-item]
        lambda: _batch.same_state([(1, b"")], 0),  # type: ignore[list-item]
        lambda: _batch.same_state([], 0, True, True),  # type: ignore[call-arg]
        lambda: _batch.largest_frame(b""),  # type: ignore[arg-type]
        lambda: _batch.largest_frame([b"", None]),  # type: ignore[list-item]
        lambda: _batch.restated(b""),  # type: ignore[call-arg]
        lambda: _batch.restated("", b""),  # type: ignore[arg-type]
        lambda: _batch.restated(b"", None),  # type: ignore[arg-type]
        lambda: _batch.settle_all([], None, 1, b""),  # type: ignore[arg-type]
        lambda: _batch.settle_all([], _batch.Received(None), 1, None),  # type: ignore[arg-type]
        lambda: _batch.settle_all(["one"], _batch.Received(None), 1, b""),  # type: ignore[list-item]
        lambda: _batch.all_plain((), 1, 1, True, True),  # type: ignore[arg-type]
        lambda: _batch.all_plain([(1, b"")], 1, 1, True, True),  # type: ignore[list-item]
        lambda: _batch.all_plain([(1, "text", False)], 1, 1, True, True),  # type: ignore[list-item]
        lambda: _batch.all_plain([None], 1, 1, True, True),  # type: ignore[list-item]
        lambda: _batch.bind((1, 2, 3)),
    ],
)
def test_what_is_no_argument_is_refused_before_proton_sees_it(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_nothing_is_at_address_zero() -> None:
    with pytest.raises(ValueError, match="address 0"):
        _batch.accept(0)
    with pytest.raises(ValueError, match="address 0"):
        _batch.accept_all([0])
    with pytest.raises(ValueError, match="address 0"):
        _batch.settle_all([0], _batch.Received(None), 1, b"")
    with pytest.raises(ValueError, match="address 0"):
        _batch.same_state([(0, b"", False)], 0)
    with pytest.raises(ValueError, match="address 0"):
        _batch.bind((0,) * len(batch._FUNCTIONS))
    with pytest.raises(ValueError, match="address 0"):
        _batch.measure_memory(_batch.Tally(), {0: None}, 0)
    connection = lib.pn_connection()
    link = lib.pn_sender(lib.pn_session(connection), b"link")
    assert _batch.send_all(batch.address(link), 7, [(b"message",)], None) == 8, "the functions are still bound"
    unsettled = _batch.Unsettled(None)
    lot = [(1, b"one", False), (2, b"two", False), (3, b"three", True), (4, b"four", False)]
    assert _batch.forward(batch.address(link), 8, lot, 1, 4, [b"changed"] * 3, unsettled, "origin") == 9
    assert unsettled.contexts == [("origin", 2)]
    lib.pn_connection_release(connection)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x00\x00\x00\x07\x02\x00\x00",
        framed(performative("begin"))[:-1],
        framed(performative("disposition", role=True, first=1, state=composite("released"))),
        framed(performative("disposition", role=True, first=1, settled=True, state=composite("released"))),
        framed(performative("disposition", role=True, first=1, settled=True)),
        framed(b"\x00\x53\x15\xc0\x00\x05"),
        framed(b"\x00\x53\x15\x45"),
    ],
)
def test_no_other_outcome_is_taken_for_accepted(data: bytes) -> None:
    with pytest.raises(ValueError, match="accepted"):
        _batch.restated(data, b"state")


@pytest.mark.parametrize(
    ("messages", "most", "annotations", "settled", "expected"),
    [
        ([], 0, False, False, True),
        ([(1, b"12345", False)], 5, False, False, True),
        ([(1, b"1", False), (2, b"12345", False)], 4, False, True, False),
        ([(1, b"x", False), (2, message(da={"a": 1}), False)], 99, False, True, False),
        ([(1, b"x", False), (2, message(da={"a": 1}), False)], 99, True, True, True),
        ([(1, message(header=[True], da={"a": 1}), False)], 99, False, True, False),
        ([(1, message(header=[True], ma={"a": 1}), False)], 99, False, True, True),
        ([(1, b"", False)], 9, False, True, True),
        ([(1, b"x", False), (2, b"x", True)], 9, False, True, True),
        ([(1, b"x", False), (2, b"x", True)], 9, False, False, False),
    ],
)
def test_what_needs_no_look_at_each(
    messages: list[Any], most: int, annotations: bool, settled: bool, expected: bool
) -> None:
    assert _batch.all_plain(messages, most, 100, annotations, settled) is expected


def test_another_proton_is_found_at_the_start() -> None:
    with pytest.raises(ImportError, match=r"pn_link_send is ssize_t.*, this gateway was made for void"):
        batch._function("pn_link_send", "void", "struct pn_link_t *")
