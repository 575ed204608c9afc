"""Cookies longer than `keys.max_cookie`, stored in shared state: over one gateway, two in a row, and a connector."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from gateway.response.cookies.cookie import CookieReference
from gateway.response.cookies.reader import open_cookie
from tests.integration.routing.test_cookies import RING
from tests.integration.routing.test_uses import start
from tests.support.amqp import frames
from tests.support.amqp.links import outcomes
from tests.support.amqp.messages import bare, message, sections
from tests.support.gateway.crossing import (
    KEY,
    SUPPORTED,
    Inbox,
    Outbox,
    Place,
    answer,
    cookie_of,
    hop_annotations,
    pair,
)
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.servers.servers import Redis

LONG = "q/" + "x" * 500
LIMIT = 400
KEYS = f", max_cookie: {LIMIT}B"
ENV = {"SCOPEGATE_TEST_KEY": KEY, **shortened(PATIENT)}


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@pytest.fixture(scope="module", params=["memory", "redis"])
def place(request: pytest.FixtureRequest, start_module_gateway: Gateways) -> Place:
    url = request.getfixturevalue("redis_server").url if request.param == "redis" else "memory"
    return start(start_module_gateway, url, keys=KEYS)


def send_long_request(place: Place, capable: bool, route: str = "any", reply_to: str = LONG) -> tuple[Any, Inbox]:
    """Send a request with a long reply-to; return it as received, and the receiver of its responses."""
    service, client, _, _ = pair(place, route, capable=capable)
    answers = Inbox(place.edge, reply_to)
    client.post(message(reply_to=reply_to, message_id="m"))
    return service.take(), answers


def test_an_annotated_request_carries_a_reference(place: Place) -> None:
    request, answers = send_long_request(place, True)
    cookie = cookie_of(request)
    assert len(cookie) <= LIMIT
    with pytest.raises(CookieReference):
        open_cookie(RING, cookie, 0)
    replies = Outbox(place.core, "$replies.core")
    for _ in range(2):
        reply = answer(cookie, body=b"yes")
        assert replies.send_and_accept(reply, answers).matches("accepted")
    assert replies.send(answer(cookie[:-1] + b"x")).matches({"error": "amqp:unauthorized-access"})


def test_a_rewritten_request_carries_one_in_its_address(place: Place) -> None:
    request, answers = send_long_request(place, False)
    reported = sections(request)["properties"]
    assert len(reported["reply_to"]) < LIMIT * 4 // 3 + 20
    replies = Outbox(place.core, reported["reply_to"])
    delivery = replies.post(message(b"yes", correlation_id=reported["message_id"]))
    home = sections(answers.take())
    assert replies.outcome(delivery).matches("accepted")
    assert home["properties"] == {"to": LONG, "correlation_id": "m"}
    anonymous = Outbox(place.core, None)
    assert anonymous.send_and_accept(message(to=reported["reply_to"]), answers).matches("accepted")


def test_short_cookies_travel_themselves(place: Place) -> None:
    request, _ = send_long_request(place, True, reply_to="q/short")
    assert open_cookie(RING, cookie_of(request), 0).address == "q/short"


def test_uses_of_a_kept_cookie_are_counted(place: Place) -> None:
    request, answers = send_long_request(place, True, "svc")
    replies = Outbox(place.core, "$replies.core")
    reply = answer(cookie_of(request))
    assert replies.send_and_accept(reply, answers).matches("accepted")
    assert replies.send(reply).matches({"error": "amqp:unauthorized-access"})


def test_order_is_kept_while_cookies_are(place: Place) -> None:
    """Long and short cookies alternate, with more messages than credit."""
    service, client, _, _ = pair(place, "svc", capable=True)
    sent = [message(b"%d" % number, reply_to=LONG if number % 3 else "q/1") for number in range(90)]
    for each in sent:
        client.post(each)
    assert [bare(service.take()) for _ in sent] == [bare(each) for each in sent]
    assert set(outcomes(client.peer, len(sent)).values()) == {"accepted"}


def test_two_gateways_share_what_is_kept(start_gateway: Gateways, redis_server: Redis) -> None:
    one, two = (start(start_gateway, redis_server.url, keys=KEYS) for _ in range(2))
    request, _ = send_long_request(one, True)
    there = Inbox(two.edge, LONG)
    reply = answer(cookie_of(request))
    assert Outbox(two.core, "$replies.core").send_and_accept(reply, there).matches("accepted")


def test_without_redis_requests_are_released_and_nothing_longer_travels(
    own_redis: Redis, start_gateway: Gateways
) -> None:
    place = start(start_gateway, own_redis.url, keys=KEYS)
    request, answers = send_long_request(place, True)
    other, _ = send_long_request(place, True, reply_to=LONG + "y")
    service, client, _, _ = pair(place, "any", capable=True)
    replies = Outbox(place.core, "$replies.core")
    assert replies.send_and_accept(answer(cookie_of(request)), answers).matches("accepted")
    own_redis.stop()
    new = message(reply_to=LONG + "z")
    assert client.send(new).matches("released")
    assert service.empty()
    assert client.send_and_accept(message(reply_to="q/1"), service).matches("accepted")
    assert replies.send_and_accept(answer(cookie_of(request)), answers).matches("accepted")  # already known
    assert replies.send(answer(cookie_of(other))).matches("released")
    wait_until(lambda: not place.gateway.is_ready(), "the gateway to miss Redis")
    assert client.send(new).matches("released")
    own_redis.start()
    wait_until(place.gateway.is_ready, "Redis to be found again")
    assert client.send_and_accept(new, service).matches("accepted")
    own_redis.empty()
    assert replies.send(answer(cookie_of(other))).matches({"error": "amqp:unauthorized-access"})
    place.gateway.wait_log("message refused", reason="not in the store")


# -- two gateways in a row

CHAIN = """
gateway: {{id: {id}, http: "127.0.0.1:{http}", log: json, state: "{state}"}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}{keys}}}
scopes:
  near:
    listen: [{{bind: "127.0.0.1:{near}"}}]
    addresses:
      - {{match: "svc/**", relay: far{replies}}}
      - {{match: "q/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  far:
    listen: [{{bind: "127.0.0.1:{far}"}}]
    connect: {connect}
    addresses: [{{match: "svc/**", {svc}}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


class Chain(NamedTuple):
    """Two gateways in a row; clients attach at `near`, services at `far`."""

    near: int
    far: int
    a: Gateway
    b: Gateway


def chained(gateways: Gateways, url: str, keys: str = KEYS, replies: str = "") -> Chain:
    near, between, far, unused, http_a, http_b = ports(6)
    two = {"id": "gw-b", "near": between, "far": far, "http": http_b, "connect": "[]", "svc": "direct: balanced"}
    policy = CHAIN.format(**two, state=url, keys=keys, replies="")
    second = gateways(policy, env={"SCOPEGATE_TEST_KEY": KEY[::-1], **shortened(PATIENT)})
    connect = f'[{{name: b, to: "amqp://127.0.0.1:{between}"}}]'
    one = {"id": "gw-a", "near": near, "far": unused, "http": http_a, "connect": connect, "svc": "relay: b"}
    policy = CHAIN.format(**one, state=url, keys=keys, replies=replies)
    return Chain(near, far, gateways(policy, env=ENV), second)


@pytest.mark.parametrize("reply_to", ["q/short", LONG])
def test_a_chain_stays_short_however_long_the_cookies_inside(
    start_gateway: Gateways, redis_server: Redis, reply_to: str
) -> None:
    chain = chained(start_gateway, redis_server.url)
    service = Inbox(chain.far, "svc/x", capable=True)
    answers = Inbox(chain.near, reply_to)
    client = Outbox(chain.near, "svc/x")
    client.credit()
    client.post(message(reply_to=reply_to))
    request = service.take()
    cookie = cookie_of(request)
    assert len(cookie) <= LIMIT
    reply = answer(cookie, body=b"yes")
    replies = Outbox(chain.far, hop_annotations(request)["response-link-target-address"])
    delivery = replies.post(reply)
    home = answers.take()
    assert replies.outcome(delivery).matches("accepted")
    assert bare(home) == bare(reply)
    assert not hop_annotations(home)


def test_a_chain_of_rewritten_requests_counts_uses_through_a_connector(
    start_gateway: Gateways, redis_server: Redis
) -> None:
    """Gateway A carries the reply address in ids; its container B forwards one response, but not a second."""
    chain = chained(start_gateway, redis_server.url, replies=", replies: {mode: rewrite, uses: 1}")
    service = Inbox(chain.far, "svc/x")
    answers = Inbox(chain.near, LONG)
    client = Outbox(chain.near, "svc/x")
    client.credit()
    client.post(message(reply_to=LONG, message_id="m"))
    reported = sections(service.take())["properties"]
    replies = Outbox(chain.far, reported["reply_to"])
    reply = message(b"yes", correlation_id=reported["message_id"])
    delivery = replies.post(reply)
    assert sections(answers.take())["properties"] == {"to": LONG, "correlation_id": "m"}
    assert replies.outcome(delivery).matches("accepted")
    assert replies.send(reply).matches({"error": "amqp:not-found"})
    chain.a.wait_log("message refused", reason="used up")


def test_a_request_without_room_for_a_reference_is_rejected_as_before(start_gateway: Gateways) -> None:
    place = start(start_gateway)
    asking = pair(place, "any", capable=True)  # kept: a service that is gone has its requests released
    outcome = asking.client.send(message(reply_to="q/" + "x" * 4096))
    assert outcome.matches({"error": "amqp:resource-limit-exceeded"})


def test_a_receiver_without_credit_gets_the_request_when_it_has_some(
    own_redis: Redis, start_gateway: Gateways
) -> None:
    place = start(start_gateway, own_redis.url, keys=KEYS)
    target = frames.target("here", capabilities=[SUPPORTED])
    service = Inbox(place.core, "services/slow", credit=1, target=target)
    client = Outbox(place.edge, "any/slow")
    client.credit()
    assert own_redis.process is not None
    own_redis.process.send_signal(signal.SIGSTOP)
    try:
        client.post(message(reply_to=LONG))
        client.peer.attach_receiver("q/1", 1)  # once this is answered, the request has been read
        service.peer.flow(0, link_credit=1, delivery_count=0, drain=True)
        counted = service.peer.until("flow", handle=0).delivery_count
    finally:
        own_redis.process.send_signal(signal.SIGCONT)
    wait_until(lambda: own_redis.command("KEYS", "scopegate:cookie:*"), "the cookie to be kept")
    service.peer.flow(0, link_credit=1, delivery_count=counted)
    assert len(cookie_of(service.take())) <= LIMIT


def test_every_receiver_at_a_multicast_node_gets_a_request_once_its_cookie_is_kept(
    own_redis: Redis, start_gateway: Gateways
) -> None:
    near, far, http = ports(3)
    fields = {"id": "gw-news", "near": near, "far": far, "http": http, "connect": "[]", "svc": "direct: multicast"}
    start_gateway(CHAIN.format(**fields, state=own_redis.url, keys=KEYS, replies=""), env=ENV)
    services = [Inbox(far, "svc/news", capable=True) for _ in range(2)]
    client = Outbox(near, "svc/news")
    client.credit()
    delivery = client.post(message(reply_to=LONG))
    for service in services:
        assert len(cookie_of(service.take())) <= LIMIT
    assert client.outcome(delivery).matches("accepted")
    own_redis.stop()
    assert client.send(message(reply_to=LONG + "y")).matches("released")
    assert all(service.empty() for service in services)
