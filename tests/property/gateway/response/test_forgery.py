"""Forged tokens, a million in `make soak`: none accepted; no time tells how far a forgery was right (RA-2.4-4)."""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from hmac import compare_digest
from itertools import pairwise

import pytest

from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.keys import COOKIE, REPLY_TO, BadToken, KeyRing, SigningSecret
from gateway.response.cookies.maker import seal
from gateway.response.cookies.reader import CookieReader, open_cookie, open_token
from gateway.response.message_id import MARK, ScopeIds

NOW = 1_700_000_000_000
KEYS = {"2026-11": SigningSecret(b"k" * 32), "2026-10": SigningSecret(b"o" * 32, NOW + 1)}
SIGNING, SEALING = KeyRing("2026-11", KEYS), KeyRing("2026-11", KEYS, seal=True)
PLAIN = Cookie("edge", "$replies.core", "replies/1", NOW)
FULL = PLAIN._replace(inner_cookie=b"inner" * 20, inner_target="T1", uses=Uses(1, b"n" * 12))
GENUINE = [seal(ring, cookie) for ring in (SIGNING, SEALING) for cookie in (PLAIN, FULL)]
TOKENS = pytest.mark.parametrize("token", GENUINE, ids=["signed", "signed, full", "sealed", "sealed, full"])
COUNTS = pytest.mark.parametrize("count", [10_000, pytest.param(250_000, marks=pytest.mark.soak)])


def mutations(token: bytes, count: int, draw: random.Random) -> Iterator[bytes]:
    """Changes of one bit, one byte, some bytes, every byte, and of the length; never the token itself."""
    size, number = len(token), int.from_bytes(token, "big")
    for turn in range(count):
        kind = turn & 7
        if kind < 3:
            mask = 1 << draw.randrange(8 * size)
        elif kind < 5:
            mask = draw.randrange(1, 256) << 8 * draw.randrange(size)
        elif kind < 7:
            mask = draw.randrange(1, 1 << 64) << 8 * draw.randrange(size - 8)
        else:
            at = draw.randrange(size)
            yield token[:at] if turn & 8 else token[:at] + draw.randbytes(1 + turn % 5) + token[at:]
            continue
        yield (number ^ mask).to_bytes(size, "big")


@pytest.mark.row("RA-2.4-4")
@COUNTS
@TOKENS
def test_of_mutated_cookies_none_is_accepted(token: bytes, count: int) -> None:
    draw, seen = random.Random(token), 0
    assert open_cookie(SIGNING, token, NOW).scope == "edge"
    for changed in mutations(token, count, draw):
        try:
            open_cookie(SIGNING, changed, NOW)
        except AmqpError as error:
            if error.condition == UNAUTHORIZED_ACCESS:
                seen += 1
    assert seen == count  # and no other exception: it would have ended the test


@pytest.mark.row("RA-2.4-4")
@COUNTS
@TOKENS
def test_a_reader_that_knows_the_genuine_one_accepts_no_mutation_either(token: bytes, count: int) -> None:
    draw, reader = random.Random(token), CookieReader(SIGNING)
    cookie = open_token(SIGNING, token, NOW, COOKIE)
    assert [reader.open(token, NOW) for _ in range(3)] == [cookie] * 3
    for changed in mutations(token, count // 5, draw):
        with pytest.raises(BadToken):
            reader.open(changed, NOW)
    assert reader.open(token, NOW) == cookie


def test_a_reader_says_what_each_of_several_kinds_of_tokens_says() -> None:
    others = [PLAIN._replace(scope="west"), PLAIN._replace(link_target="T2"), PLAIN._replace(address=None)]
    cookies = [PLAIN, *others, FULL]
    rings = (SIGNING, KeyRing("2026-10", KEYS), SEALING)
    tokens = [(seal(ring, cookie), cookie) for ring in rings for cookie in cookies]
    reader, draw = CookieReader(SIGNING), random.Random(5)
    for token, cookie in draw.choices(tokens, k=2000):
        assert reader.open(token, NOW) == cookie


def test_a_reader_refuses_a_key_from_the_moment_it_retires() -> None:
    reader, token = CookieReader(SIGNING), seal(KeyRing("2026-10", KEYS), PLAIN)
    assert reader.open(token, NOW + 1) == reader.open(token, NOW + 1) == PLAIN
    with pytest.raises(BadToken, match="retired"):
        reader.open(token, NOW + 2)


def test_genuine_bytes_that_say_nothing_are_refused_by_a_reader_too() -> None:
    reader, token = CookieReader(SIGNING), seal(SIGNING, PLAIN)
    assert reader.open(token, NOW) == PLAIN
    for rest in (token[:-25], token[:-17], token[:-16] + b"x", token[:-17] + b"\xff"):
        with pytest.raises(BadToken, match=r"lengths|UTF-8"):
            reader.open(rest + SIGNING.signer(COOKIE).mac(rest), NOW)


@pytest.mark.row("RA-2.5-9")
@pytest.mark.parametrize("ring", [SIGNING, SEALING], ids=["signed", "sealed"])
def test_mutated_reply_tokens_and_ids_are_nobodys(ring: KeyRing) -> None:
    draw, token = random.Random(7), seal(ring, PLAIN, REPLY_TO)
    assert open_token(SIGNING, token, NOW, REPLY_TO) == PLAIN
    for changed in mutations(token, 20_000, draw):
        with pytest.raises(BadToken):
            open_token(SIGNING, changed, NOW, REPLY_TO)
    ids = ScopeIds(ring, "edge", secrets.token_bytes)
    name = ids.mint(b"\x53\x2a")
    assert ids.original(name, NOW) == b"\x53\x2a"
    for changed in mutations(name[2:], 20_000, draw):
        field = b"\xa1%c%b" % (len(changed), changed)
        assert ids.original(field, NOW) is None
        text = MARK + to_url(changed)
        assert ids.original(b"\xa1%c%b" % (len(text) & 255, text), NOW) is None


def separation(first: Callable[[], object], second: Callable[[], object]) -> float:
    """How often a call of one takes longer than one of the other (Mann-Whitney U over n²): half is no difference.

    Samples of both are taken in turn, in an order that is drawn, so that what else the machine does hits both.
    """
    draw, times = random.Random(1), ([], [])  # type: tuple[list[int], list[int]]
    calls = (first, second)
    for _ in range(1500):
        turn = draw.randrange(2)
        for which in (turn, 1 - turn):
            call, start = calls[which], time.perf_counter_ns()
            for _ in range(8):
                call()
            times[which].append(time.perf_counter_ns() - start)
    ranked = sorted([(taken, 0) for taken in times[0]] + [(taken, 1) for taken in times[1]])
    wins, below, at = 0.0, 0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        tied = [sum(1 for _, which in ranked[at:end] if which == side) for side in (0, 1)]
        wins += tied[0] * (below + tied[1] / 2)
        below, at = below + tied[1], end
    return wins / (len(times[0]) * len(times[1]))


def refusal(ring: KeyRing, token: bytes) -> Callable[[], object]:
    reader = CookieReader(ring)
    reader.open(seal(ring, PLAIN), NOW)

    def call() -> None:
        try:
            reader.open(token, NOW)
        except BadToken:
            return
        raise AssertionError

    return call


def leaning(ring: KeyRing) -> float:
    """`separation` of tokens whose MAC is wrong at its first and at its last byte, in both roles and made anew.

    Where an object lies in memory tells on its time, and so may being called first: neither is what is looked for.
    """

    def wrong(at: int) -> Callable[[], object]:
        token = bytearray(seal(ring, PLAIN))
        token[at] ^= 1
        return refusal(ring, bytes(token))

    return (separation(wrong(-16), wrong(-1)) + 1 - separation(wrong(-1), wrong(-16))) / 2


@pytest.mark.row("RA-2.4-4")
@pytest.mark.parametrize("ring", [SIGNING, SEALING], ids=["signed", "sealed"])
def test_the_time_does_not_tell_which_byte_of_the_mac_is_wrong(ring: KeyRing) -> None:
    found = [leaning(ring) for _ in range(5)]
    assert abs(statistics.median(found) - 0.5) < 0.1, found


def test_the_timing_test_would_find_a_comparison_that_stops_early() -> None:
    mac = bytes(range(16))
    first, last = b"\xff" + mac[1:], mac[:-1] + b"\xff"

    def leaky(given: bytes) -> bool:
        return all(one == other for one, other in zip(mac, given, strict=True))

    found = [separation(lambda: leaky(last), lambda: leaky(first)) for _ in range(5)]
    assert statistics.median(found) > 0.7, found  # what the real one may not reach is 0.6
    assert not compare_digest(mac, last)


def test_mutations_are_never_the_token_itself() -> None:
    made = list(mutations(GENUINE[0], 4000, random.Random(3)))
    assert GENUINE[0] not in made
    assert all(one != other for one, other in pairwise(made[:16]))
