"""The number of responses per request (`replies: {uses}`): annotated and rewritten, over one gateway and over two."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.keys import REPLY_TO
from gateway.response.cookies.maker import seal
from gateway.response.cookies.reader import open_cookie
from gateway.routing.response_router import OUTLIVES
from tests.integration.routing.test_cookies import RING
from tests.support.amqp.links import outcomes
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, cookie_of, pair
from tests.support.gateway.crossing import Place as Boundary
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.servers.servers import Redis

UNAUTHORIZED = "amqp:unauthorized-access"
FAR = 1 << 42
USED_UP = 'scopegate_cookie_failures_total{reason="used up"}'
_numbers = itertools.count()

POLICY = """
gateway: {{id: {id}, http: "127.0.0.1:{http}", log: json, drain: 1s, state: "{state}"}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}, expiry: {expiry}{keys}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}", replies: {{uses: 1}}}}
      - {{match: "two/{{name}}", relay: core, address: "services/{{name}}", replies: {{uses: 2}}}}
      - {{match: "any/{{name}}", relay: core, address: "services/{{name}}"}}
      - {{match: "q/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "services/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


def start(
    gateways: Gateways, state: str = "memory", *, expiry: str = "5m", keys: str = "", ready: bool = True
) -> Boundary:
    edge, core, http = ports(3)
    name = f"gw-uses-{next(_numbers)}"
    policy = POLICY.format(id=name, edge=edge, core=core, http=http, state=state, expiry=expiry, keys=keys)
    env = {"SCOPEGATE_TEST_KEY": KEY, **shortened(PATIENT)}
    return Boundary(edge, core, gateways(policy, env=env, ready=ready))


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Boundary:
    return start(start_module_gateway)


class ReceivedRequest(NamedTuple):
    """A request that arrived: how to answer it, and the receiver of the responses."""

    reply: Callable[[Boundary], Any]
    data: bytes
    answers: Inbox
    refused: dict[str, str]


def send_request(place: Boundary, capable: bool, route: str = "svc") -> ReceivedRequest:
    """Send a request; a responder with support gets a cookie, another one a rewritten address."""
    service, client, answers, reply_to = pair(place, route, capable=capable)
    client.post(message(reply_to=reply_to))
    request = service.take()
    if capable:
        data = answer(cookie_of(request))
        return ReceivedRequest(lambda at: Outbox(at.core, "$replies.core"), data, answers, {"error": UNAUTHORIZED})
    address = sections(request)["properties"]["reply_to"]
    return ReceivedRequest(
        lambda at: Outbox(at.core, address), message(b"answer"), answers, {"error": "amqp:not-found"}
    )


@pytest.mark.parametrize("capable", [True, False])
def test_a_second_response_is_refused_in_the_words_for_any_bad_cookie(place: Boundary, capable: bool) -> None:
    before = place.gateway.metrics().get(USED_UP, 0.0)
    given = send_request(place, capable)
    replies = given.reply(place)
    assert replies.send_and_accept(given.data, given.answers).matches("accepted")
    outcome = replies.send(given.data)
    assert outcome.matches(given.refused)
    forged = seal(RING, Cookie("nowhere", "$replies.core", "q/1", FAR), "cookie" if capable else REPLY_TO)
    if capable:
        reported = replies.send(answer(forged))["error"]["description"]
    else:
        reported = Outbox(place.core, None).send(message(to="$replies.core/garbage"))["error"]["description"]
    assert outcome["error"]["description"] == reported
    assert given.answers.empty()
    place.gateway.wait_metric(USED_UP, lambda value: value == before + 1)
    assert place.gateway.wait_log("message refused", reason="used up")


@pytest.mark.parametrize("capable", [True, False])
def test_two_uses_are_two_whatever_link_they_come_on(place: Boundary, capable: bool) -> None:
    given = send_request(place, capable, "two")
    first, second = given.reply(place), given.reply(place)
    assert first.send_and_accept(given.data, given.answers).matches("accepted")
    assert second.send_and_accept(given.data, given.answers).matches("accepted")
    assert first.send(given.data).matches(given.refused)
    assert second.send(given.data).matches(given.refused)


def test_the_anonymous_terminus_counts_too(place: Boundary) -> None:
    given = send_request(place, True)
    anonymous = Outbox(place.core, None)
    reply = answer(annotated_cookie(given), to="$replies.core")
    assert anonymous.send_and_accept(reply, given.answers).matches("accepted")
    assert anonymous.send(reply).matches(given.refused)
    given = send_request(place, False)
    reply = message(to=given.reply(place).attach.target["address"])
    assert anonymous.send_and_accept(reply, given.answers).matches("accepted")
    assert anonymous.send(reply).matches(given.refused)


def annotated_cookie(given: ReceivedRequest) -> bytes:
    found = sections(given.data)["delivery_annotations"]
    return bytes(next(iter(found.values())))


@pytest.mark.row("RA-2.4-5")
def test_each_request_has_uses_of_its_own_and_other_rules_count_nothing(place: Boundary) -> None:
    service, client, answers, reply_to = pair(place, capable=True)
    replies = Outbox(place.core, "$replies.core")
    for _ in range(3):
        client.post(message(reply_to=reply_to))
        assert replies.send_and_accept(answer(cookie_of(service.take())), answers).matches("accepted")
    free = send_request(place, True, "any")
    assert open_cookie(RING, annotated_cookie(free), 0).uses is None
    for _ in range(3):
        assert replies.send_and_accept(free.data, free.answers).matches("accepted")


@pytest.mark.parametrize("outcome", ["released", "modified"])
@pytest.mark.parametrize("capable", [True, False])
def test_what_the_requester_gives_back_may_be_sent_again(place: Boundary, capable: bool, outcome: str) -> None:
    given = send_request(place, capable)
    replies = given.reply(place)
    for _ in range(3):
        delivery = replies.post(given.data)
        given.answers.take(outcome)
        assert replies.outcome(delivery).matches(outcome)
    assert replies.send_and_accept(given.data, given.answers).matches("accepted")
    assert replies.send(given.data).matches(given.refused)


def test_what_the_requester_rejects_was_used(place: Boundary) -> None:
    given = send_request(place, True)
    replies = given.reply(place)
    delivery = replies.post(given.data)
    given.answers.take("rejected")
    assert replies.outcome(delivery).matches("rejected")
    assert replies.send(given.data).matches(given.refused)


def test_no_use_is_lost_where_nobody_receives_or_the_responder_leaves(place: Boundary) -> None:
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    reply = answer(cookie_of(service.take()))
    answers.peer.detach(answers.handle)
    answers.peer.until("detach")
    replies = Outbox(place.core, "$replies.core")
    replies.post(reply)  # waits for a receiver
    replies.peer.disconnect()
    place.gateway.wait_metric("scopegate_unsettled", lambda value: value == 0)
    again = Inbox(place.edge, reply_to)
    assert Outbox(place.core, "$replies.core").send_and_accept(reply, again).matches("accepted")


def test_pre_settled_responses_are_counted_and_the_second_ends_its_link(place: Boundary) -> None:
    given = send_request(place, True)
    replies = given.reply(place)
    replies.post(given.data, settled=True)
    given.answers.take()
    assert replies.fails(given.data, settled=True).error["condition"] == UNAUTHORIZED


def test_many_at_once_are_never_one_too_many(place: Boundary) -> None:
    given = send_request(place, True, "two")
    links = [given.reply(place) for _ in range(4)]
    for link in links:
        for _ in range(5):
            link.post(given.data)
    for _ in range(2):
        given.answers.take()
    states = [state for link in links for state in outcomes(link.peer, 5).values()]
    assert Counter(states) == {"accepted": 2, "rejected": 18}
    assert given.answers.empty()


def test_a_limit_of_another_gateway_holds_here(place: Boundary) -> None:
    """A gateway with the same keys may have issued it; the limit of five is not in this policy."""
    answers = Inbox(place.edge, "q/other")
    reply = answer(seal(RING, Cookie("edge", "$replies.core", "q/other", FAR, uses=Uses(5, b"n" * 12))))
    replies = Outbox(place.core, "$replies.core")
    for _ in range(5):
        assert replies.send_and_accept(reply, answers).matches("accepted")
    assert replies.send(reply).matches({"error": UNAUTHORIZED})


# -- shared state


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@pytest.mark.parametrize("capable", [True, False])
def test_two_gateways_with_one_redis_count_as_one(
    start_gateway: Gateways, redis_server: Redis, capable: bool
) -> None:
    one, two = (start(start_gateway, redis_server.url) for _ in range(2))
    given = send_request(one, capable, "two")
    there = Inbox(two.edge, given.answers.attach.source["address"])
    assert given.reply(two).send_and_accept(given.data, there).matches("accepted")
    assert given.reply(one).send_and_accept(given.data, given.answers).matches("accepted")
    for place in (two, one):
        assert given.reply(place).send(given.data).matches(given.refused)
    for place in (one, two):
        place.gateway.wait_metric(USED_UP, lambda value: value == 1)


def test_a_restart_forgets_nothing_with_redis(start_gateway: Gateways, redis_server: Redis) -> None:
    place = start(start_gateway, redis_server.url)
    given = send_request(place, True)
    assert given.reply(place).send_and_accept(given.data, given.answers).matches("accepted")
    place.gateway.kill()
    place.gateway.restart()
    _inbox = Inbox(place.edge, given.answers.attach.source["address"])
    assert given.reply(place).send(given.data).matches(given.refused)


def test_a_count_ends_with_its_cookie(own_redis: Redis, start_gateway: Gateways) -> None:
    place = start(start_gateway, own_redis.url, expiry="10s")
    given = send_request(place, True)
    assert given.reply(place).send_and_accept(given.data, given.answers).matches("accepted")
    (key,) = own_redis.command("KEYS", "scopegate:uses:*").split()
    left = int(own_redis.command("PTTL", key)) - OUTLIVES
    assert -10_000 < left <= 10_000 + 10_000 // 64  # rounded up, so that cookies repeat


def test_without_redis_nothing_is_accepted_and_nothing_goes_through(own_redis: Redis, start_gateway: Gateways) -> None:
    place = start(start_gateway, own_redis.url)
    given = send_request(place, True)
    free = send_request(place, True, "any")
    own_redis.stop()
    replies = given.reply(place)
    for _ in range(3):
        assert replies.send(given.data).matches("released")
    assert given.answers.empty()
    assert replies.send_and_accept(free.data, free.answers).matches("accepted")
    unready(place.gateway)
    assert replies.send(given.data).matches("released")
    place.gateway.wait_metric('scopegate_state_events_total{event="unknown"}', lambda value: value >= 1)
    own_redis.start()
    wait_until(place.gateway.is_ready, "Redis to be found again")
    assert replies.send_and_accept(given.data, given.answers).matches("accepted")
    assert replies.send(given.data).matches(given.refused)


def test_a_use_that_cannot_be_given_back_now_is_given_back_later(own_redis: Redis, start_gateway: Gateways) -> None:
    place = start(start_gateway, own_redis.url)
    given = send_request(place, True)
    replies = given.reply(place)
    delivery = replies.post(given.data)
    transfer = given.answers.transfer()
    own_redis.stop()
    given.answers.peer.disposition(transfer.delivery_id, "released")
    assert replies.outcome(delivery).matches("released")
    own_redis.start()
    wait_until(lambda: place.gateway.is_ready() and not own_redis.command("KEYS", "scopegate:uses:*"), "the use")
    assert replies.send_and_accept(given.data, given.answers).matches("accepted")
    assert replies.send(given.data).matches(given.refused)


def unready(gateway: Gateway) -> None:
    wait_until(lambda: not gateway.is_ready(), "the gateway to miss Redis")
