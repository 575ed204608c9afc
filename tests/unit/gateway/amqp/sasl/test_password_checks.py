"""Password checks take turns by listener and address, and never run on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from gateway.amqp.sasl.password_checks import PasswordChecks, Ticket, Turns
from tests.support.gateway.process import PATIENCE


def ticket() -> Ticket:
    return Ticket(lambda: True, lambda passes: None)


def order(turns: Turns, names: dict[Ticket, str]) -> str:
    found = []
    while (taken := turns.pop()) is not None:
        found.append(names[taken])
    return "".join(found)


def test_addresses_and_listeners_take_turns() -> None:
    turns, names = Turns(), dict[Ticket, str]()
    for listener, address, name in [
        ("edge", "flood", "a"), ("edge", "flood", "b"), ("edge", "flood", "c"), ("edge", "other", "x"),
        ("core", "third", "y"),
    ]:  # fmt: skip
        added = ticket()
        names[added] = name
        turns.add(listener, address, added)
    assert order(turns, names) == "ayxbc"


def test_what_was_cancelled_is_not_taken() -> None:
    turns, names = Turns(), dict[Ticket, str]()
    for name in "abc":
        added = ticket()
        names[added] = name
        turns.add("edge", "one", added)
    next(each for each, name in names.items() if name == "b").cancel()
    assert order(turns, names) == "ac"


async def test_a_flood_from_one_address_delays_no_other() -> None:
    loop, finished, failures = asyncio.get_running_loop(), list[str](), list[object]()
    loop.set_exception_handler(lambda _, context: failures.append(type(context["exception"])))
    checks, gate = PasswordChecks(loop, workers=1), threading.Event()
    every = asyncio.Event()

    def then(name: str) -> Callable[[bool], None]:
        def reported(passes: bool) -> None:
            assert passes == (name != "wrong")
            finished.append(name)
            if len(finished) == 52:
                every.set()

        return reported

    for _ in range(50):
        checks.submit("edge", "flood", lambda: gate.wait(PATIENCE), then("flood"))
    checks.submit("edge", "other", lambda: True, then("right"))
    checks.submit("edge", "third", lambda: 1 // 0 > 0, then("wrong"))
    gate.set()
    await asyncio.wait_for(every.wait(), PATIENCE)
    assert {"right", "wrong"} < set(finished[:4])
    assert failures == [ZeroDivisionError]
    checks.close()


async def test_who_has_gone_hears_nothing() -> None:
    loop, reported = asyncio.get_running_loop(), list[str]()
    checks, gate, after = PasswordChecks(loop, workers=1), threading.Event(), asyncio.Event()
    running = checks.submit("edge", "one", lambda: gate.wait(PATIENCE), lambda passes: reported.append("running"))
    waiting = checks.submit("edge", "two", lambda: True, lambda passes: reported.append("waiting"))
    checks.submit("edge", "three", lambda: True, lambda passes: after.set())
    running.cancel()
    waiting.cancel()
    gate.set()
    await asyncio.wait_for(after.wait(), PATIENCE)
    assert reported == []
    checks.close()
