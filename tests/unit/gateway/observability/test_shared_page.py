"""A page for all who ask at the same time: made once, never older than a request, and by one of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gateway.observability.http.shared_page import SharedPage, in_pieces


class Counting:
    """Pages that show their numbers, and how many are being made."""

    def __init__(self) -> None:
        self.begun = self.at_once = self.most_at_once = 0

    def pieces(self) -> Iterator[bytes | None]:
        self.begun += 1
        number = self.begun
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        yield from (b"page ", None, str(number).encode())
        self.at_once -= 1


async def test_those_who_ask_together_get_one_page() -> None:
    made = Counting()
    page = SharedPage(made.pieces)
    assert await asyncio.gather(*(page.get() for _ in range(50))) == [b"page 1"] * 50
    assert await page.get() == b"page 2"
    assert page._page == b"", "nothing is kept for nobody"


async def test_nobody_gets_a_page_that_was_begun_before_the_request() -> None:
    made = Counting()
    page = SharedPage(made.pieces)
    made_one, slow = asyncio.Event(), asyncio.Event()
    make = page._make

    async def waiting() -> bytes:
        found = await make()
        made_one.set()
        await slow.wait()
        return found

    page._make = waiting  # type: ignore[method-assign]
    first = asyncio.create_task(page.get())
    await made_one.wait()
    later = [asyncio.create_task(page.get()) for _ in range(20)]
    await asyncio.sleep(0)
    slow.set()
    assert await first == b"page 1"
    assert await asyncio.gather(*later) == [b"page 2"] * 20
    assert (made.begun, made.most_at_once) == (2, 1)


async def test_one_who_leaves_or_fails_while_making_leaves_it_to_the_next() -> None:
    made = Counting()
    page = SharedPage(made.pieces)
    stuck, make = asyncio.Event(), page._make

    async def never() -> bytes:
        stuck.set()
        await asyncio.Event().wait()
        return b""

    page._make = never  # type: ignore[method-assign]
    first = asyncio.create_task(page.get())
    await stuck.wait()
    second = asyncio.create_task(page.get())
    await asyncio.sleep(0)
    page._make = make  # type: ignore[method-assign]
    first.cancel()
    assert await second == b"page 1"


async def test_a_long_page_is_sent_in_pieces() -> None:
    page = bytes(200_000)
    pieces = [piece async for piece in in_pieces(page)]
    assert (b"".join(pieces), max(map(len, pieces))) == (page, 65_536)
    assert [piece async for piece in in_pieces(b"")] == []
