"""Errors whose text has a NUL, at which proton ends: nothing of it is lost on its way (part 3, 3.4.3)."""

from __future__ import annotations

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.protocol.conftest import Served
from tests.support.amqp.frames import composite, error, framed, performative
from tests.support.amqp.messages import message


def rejected(text: str) -> object:
    return composite("rejected", error=error("vendor:no", text, {Symbol("n"): 5}))


@pytest.mark.parametrize("text", ["a\0b", "\0", "\0\0", "x" * 300 + "\0" + "y" * 300, "plain", ""])
def test_a_rejection_comes_back_whole(served: Served, text: str) -> None:
    sender, receiver = served.pair("chat/texts")
    with sender, receiver:
        sender.transfer(message())
        delivery = receiver.until("transfer").delivery_id
        receiver.disposition(delivery, rejected(text))
        state = sender.until("disposition").state
        assert (state["error"]["condition"], state["error"]["info"]) == ("vendor:no", {"n": 5})
        assert (state["error"]["description"] or "") == text.replace("\0", "\u2400")


def test_several_in_one_write_keep_their_own(served: Served) -> None:
    texts = ["one\0a", "one\0b", "one", "\0"]
    sender, receiver = served.pair("chat/texts")
    with sender, receiver:
        for _ in texts:
            sender.transfer(message())
        first = receiver.until("transfer").delivery_id
        for _ in texts[1:]:
            receiver.until("transfer")
        fields = {"role": True, "settled": True}
        receiver.send_raw(
            b"".join(
                framed(performative("disposition", first=first + number, state=rejected(text), **fields))
                for number, text in enumerate(texts)
            )
        )
        for text in texts:
            state = sender.until("disposition").state
            assert state["error"]["description"] == text.replace("\0", "\u2400")
