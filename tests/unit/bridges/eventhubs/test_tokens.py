"""Shared access signatures: which are valid, and what they open."""

from __future__ import annotations

import time

import pytest

from bridges.eventhubs.addresses import read_address, request_node
from bridges.eventhubs.authorization import MOST_TOKENS, Authorization
from bridges.eventhubs.tokens import verified
from gateway.errors import NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from policies.model.scopes.event_hubs import SharedKey
from tests.support.eventhubs.hubs import KEYS, sas

HUB = "sb://gateway.example/orders"
RING = {name: SharedKey(name, name, secret.encode()) for name, secret in KEYS.items()}


def now() -> int:
    return int(time.time() * 1000)


def refused(text: str, name: str = HUB) -> str:
    with pytest.raises(AmqpError) as caught:
        verified(text, name, RING, now())
    assert caught.value.condition == UNAUTHORIZED_ACCESS
    assert KEYS["app"] not in str(caught.value)
    return caught.value.description


def test_a_token_opens_what_it_was_put_for() -> None:
    whole = verified(sas(HUB), HUB, RING, now())
    part = verified(sas(HUB), f"{HUB}/ConsumerGroups/$Default", RING, now())

    assert whole.key.user == "app"
    assert whole.covers(("orders", "partitions", "1"))
    assert not whole.covers(("orders2",))
    assert part.covers(read_address("orders/consumergroups/$Default/Partitions/0").path)
    assert not part.covers(("orders",))
    assert verified(sas(HUB), HUB.replace("orders", "Orders"), RING, now()).resource == ("Orders",)  # Go's lower case
    assert verified(sas("sb://gateway.example/"), HUB, RING, now()).resource == ("orders",)


@pytest.mark.row("EH-2")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (sas(HUB, secret="another"), "InvalidSignature"),
        (sas(HUB).replace("skn=app", "skn=guest"), "InvalidSignature"),
        (sas(HUB).replace("skn=app", "skn=nobody"), "InvalidSignature"),
        (sas(HUB).replace("orders", "letters"), "InvalidSignature"),
        (sas(HUB, seconds=-1), "ExpiredToken"),
        (sas("sb://gateway.example/letters"), "InvalidAudience: the token is for another resource (sr)"),
        (sas(f"{HUB}/Partitions/1"), "InvalidAudience"),
        (sas(HUB) + "&se=9999999999", "MalformedToken"),
        (sas(HUB).replace("se=", "se=x"), "MalformedToken"),
        ("SharedAccessSignature sr=a&sig=b&se=1", "MalformedToken"),
        ("eyJhbGciOiJub25lIn0.e30.", "MalformedToken"),
        ("", "MalformedToken: it is not a shared access signature"),
        ("SharedAccessSignature " + "x" * 10_000, "MalformedToken: it has more than 8192 characters"),
    ],
)
def test_an_invalid_token_opens_nothing(text: str, said: str) -> None:
    assert refused(text).startswith(said)


@pytest.mark.row("EH-2")
def test_a_token_is_sent_for_a_resource() -> None:
    with pytest.raises(AmqpError, match="the request needs a name"):
        verified(sas("sb://gateway.example/"), "", RING, now())


@pytest.mark.row("EH-5")
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("orders", ("orders", None, None)),
        ("amqps://host:5671/orders", ("orders", None, None)),
        ("sb://host/orders/Partitions/2", ("orders", None, "2")),
        ("orders/ConsumerGroups/$Default/Partitions/0", ("orders", "$Default", "0")),
        ("orders/consumergroups/Billing/partitions/0", ("orders", "Billing", "0")),
    ],
)
def test_addresses(address: str, expected: tuple[str, str | None, str | None]) -> None:
    assert read_address(address)[1:] == expected


@pytest.mark.row("EH-5")
@pytest.mark.parametrize(
    "address", ["", "/", "a/b", "a/Publishers/b", "a/ConsumerGroups/b", "a/Partitions", "a/b/c/d/e/f"]
)
def test_other_addresses_are_not_found(address: str) -> None:
    with pytest.raises(AmqpError) as caught:
        read_address(address)
    assert caught.value.condition == NOT_FOUND


def test_request_nodes() -> None:
    assert request_node("amqps://host/$cbs") == "$cbs"
    assert request_node("orders/$management") == "$management"
    assert request_node("orders") is None
    assert request_node("orders/Partitions/$cbs") is None


class Timers:
    """A clock and the timers of one connection."""

    def __init__(self) -> None:
        self.ms = now()
        self._due: list[tuple[float, Timers.One]] = []

    class One:
        def __init__(self, call: object) -> None:
            self.call = call

        def cancel(self) -> None:
            self.call = None

    def later(self, seconds: float, call: object) -> Timers.One:
        one = Timers.One(call)
        self._due.append((self.ms + seconds * 1000, one))
        return one

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)
        due, self._due = [one for at, one in self._due if at <= self.ms], [(a, o) for a, o in self._due if a > self.ms]
        for one in due:
            if callable(one.call):
                one.call()


class Dependent:
    scope = "edge"
    ended: AmqpError | None = None

    def end(self, error: AmqpError) -> None:
        self.ended = error


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def tokens(timers: Timers) -> Authorization:
    return Authorization(RING, lambda: timers.ms, timers.later)


def depend(tokens: Authorization, wanted: tuple[str, ...] = ("orders",)) -> Dependent:
    link = Dependent()
    tokens.depend(link, wanted, tokens.user(wanted))
    return link


@pytest.mark.row("EH-4")
def test_links_end_at_the_expiry_of_their_token(tokens: Authorization, timers: Timers) -> None:
    tokens.put(sas(HUB, seconds=10), HUB)
    tokens.put(sas("sb://h/letters", seconds=100), "sb://h/letters")
    link, other = depend(tokens), depend(tokens, ("letters", "partitions", "1"))

    timers.advance(9)
    assert link.ended is None
    timers.advance(3)

    assert link.ended is not None
    assert link.ended.condition == UNAUTHORIZED_ACCESS
    assert other.ended is None
    with pytest.raises(AmqpError):
        tokens.user(("orders",))


@pytest.mark.row("EH-4")
def test_a_clock_that_is_set_forward_does_not_keep_links_of_expired_tokens(timers: Timers) -> None:
    ahead = 0
    tokens = Authorization(RING, lambda: timers.ms + ahead, timers.later)
    tokens.put(sas(HUB, seconds=3600), HUB)
    link = depend(tokens)
    ahead = 3600 * 1000
    timers.advance(61)
    assert link.ended is not None


@pytest.mark.row("EH-4")
def test_a_renewed_token_keeps_its_links(tokens: Authorization, timers: Timers) -> None:
    tokens.put(sas(HUB, seconds=10), HUB)
    link = depend(tokens)
    timers.advance(5)
    tokens.put(sas(HUB, seconds=60), HUB)
    timers.advance(20)
    assert link.ended is None


@pytest.mark.row("EH-4")
def test_a_token_of_another_user_ends_the_links_of_the_first(tokens: Authorization) -> None:
    tokens.put(sas(HUB), HUB)
    link = depend(tokens)
    tokens.put(sas(HUB, key="guest"), HUB)
    assert link.ended is not None
    assert tokens.user(("orders",)) == "guest"


@pytest.mark.row("EH-4")
def test_a_reload_that_changes_the_key_ends_the_links(tokens: Authorization) -> None:
    tokens.put(sas(HUB), HUB)
    tokens.put(sas("sb://h/letters", key="guest"), "sb://h/letters")
    link, other = depend(tokens), depend(tokens, ("letters",))
    tokens.renew({**RING, "app": SharedKey("app", "app", b"new")})
    assert link.ended is not None
    assert other.ended is None


@pytest.mark.row("EH-4")
def test_a_connection_has_a_limited_number_of_tokens(tokens: Authorization, timers: Timers) -> None:
    for number in range(MOST_TOKENS):
        tokens.put(sas("sb://h/", seconds=10), f"sb://h/hub-{number}")
    with pytest.raises(AmqpError) as caught:
        tokens.put(sas("sb://h/"), "sb://h/one-more")
    assert caught.value.condition == RESOURCE_LIMIT_EXCEEDED
    tokens.put(sas("sb://h/"), "sb://h/hub-1")  # a renewal is no other token
    timers.advance(20)
    tokens.put(sas("sb://h/"), "sb://h/one-more")
