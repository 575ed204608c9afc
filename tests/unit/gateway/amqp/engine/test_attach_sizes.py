"""What attaches take: counted while their links are there; and what errors say, whole."""

from __future__ import annotations

import pytest

from gateway.amqp.engine.pressure import Pressure
from gateway.amqp.link.link import Link
from gateway.errors import AmqpError
from gateway.held.account import LINK, Account, Pool
from tests.support.amqp.direct import steps
from tests.support.amqp.frames import framed, performative, source, target
from tests.unit.gateway.amqp.engine.test_engine import Owner, Sending, opened

LARGE = 60_000


def attach(handle: int, name: str, **fields: object) -> bytes:
    termini = {"source": source("a"), "target": target("a")}
    return framed(performative("attach", name=name, handle=handle, role=True, **{**termini, **fields}))


def begun(owner: Owner) -> Owner:
    owner.say(framed(performative("begin", next_outgoing_id=0, incoming_window=10, outgoing_window=10)))
    return owner


def crowd(links: int) -> Owner:
    """A connection with so many links in one session."""
    owner = Sending(max_links=2 * links)
    owner.say(b"AMQP\x00\x01\x00\x00" + framed(performative("open", container_id="p")))
    begun(owner)
    for handle in range(links):
        owner.say(attach(handle, f"link-{handle}"))
    return owner


@pytest.mark.parametrize("end", ["detach", "end"])
def test_a_large_attach_counts_until_its_link_has_gone(end: str) -> None:
    owner = begun(opened())
    owner.say(attach(0, "small"))
    assert owner.engine.table.count == 1
    owner.say(attach(1, "large", properties={"x": "y" * LARGE}))
    assert owner.engine.table.count >= 2 + 4 * LARGE // LINK
    owner.say(framed(performative("end") if end == "end" else performative("detach", handle=1, closed=True)))
    assert owner.engine.table.count == (0 if end == "end" else 1)


class Socket:
    """What `Pressure` asks of an asyncio transport and its loop."""

    def get_write_buffer_size(self) -> int:
        return 0


def test_links_without_a_message_are_charged() -> None:
    owner = begun(opened())
    pool = Pool(2**30)
    account = Account(2**20, (pool,), lambda: None)
    pressure = Pressure(None, owner.engine, account, Socket(), lambda how: None, lambda: None)  # type: ignore[arg-type]
    pressure.turn(0)
    before = pool.total
    owner.say(attach(1, "large", properties={"x": "y" * LARGE}))
    pressure.turn(0)
    assert pool.total - before >= 4 * LARGE


def test_a_link_name_has_a_length() -> None:
    owner = begun(opened())
    frames = owner.say(attach(0, "n" * 4096))
    assert not frames
    (close,) = owner.say(attach(1, "n" * 4097))
    assert close.kind == "close"
    assert close.error.matches({"condition": "amqp:resource-limit-exceeded"})
    assert "4097" in close.error["description"]


def test_an_attach_costs_python_the_same_with_many_links() -> None:
    """proton compares names, 30 ns for each link of the session; nothing of ours walks over them."""

    def cost(links: int) -> int:
        owner = crowd(links)
        return steps(lambda: owner.say(attach(links, "one more")))

    assert cost(400) < 1.5 * cost(100)


@pytest.mark.parametrize("said", ["a\0b", "\0", "\0\0x"])
def test_a_nul_ends_no_description(said: str) -> None:
    class Refusing(Owner):
        def link_requested(self, link: Link) -> None:
            link.refuse(AmqpError("test:no", said))

    owner = Refusing()
    owner.say(b"AMQP\x00\x01\x00\x00" + framed(performative("open", container_id="p")))
    begun(owner)
    detach = owner.say(attach(0, "one"))[-1]
    assert detach.error["description"] == said.replace("\0", "\u2400")
