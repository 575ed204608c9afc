"""The response rate of one responder (`response_rate`): responses above it wait, and none is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.routing import test_uses
from tests.support.amqp import frames
from tests.support.amqp.links import outcomes
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import SENDER, Listener, Peer
from tests.support.gateway.crossing import KEY, Inbox, Outbox, Place, answer, connected, cookie_of, pair
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

ACCESS = '    addresses: [{match: "services/**", direct: balanced}]'


def start(gateways: Gateways, rate: str) -> Place:
    edge, core, http = ports(3)
    policy = test_uses.POLICY.format(
        id="gw-rate", edge=edge, core=core, http=http, state="memory", expiry="5m", keys=""
    )
    assert ACCESS in policy
    policy = policy.replace(ACCESS, f"    response_rate: {rate}\n{ACCESS}")
    return Place(edge, core, gateways(policy, env={"SCOPEGATE_TEST_KEY": KEY}))


def replies_to(place: Place, route: str = "any") -> tuple[bytes, Inbox]:
    """The cookie of a request, and the receiver of its responses."""
    service, client, answers, reply_to = pair(place, route, capable=True)
    client.post(message(reply_to=reply_to))
    return cookie_of(service.take()), answers


def send_all(peer: Peer, handle: int, payloads: list[bytes], granted: int = 0) -> int:
    """Send as fast as there is credit; return how much there was at first, if not `granted`."""
    allowed = first = granted or peer.until("flow", handle=handle).link_credit
    for number, payload in enumerate(payloads):
        while number >= allowed:
            flow = peer.until("flow", handle=handle)
            allowed = flow.delivery_count + flow.link_credit
        peer.transfer(payload, handle)
    return int(first)


def test_what_comes_faster_waits_and_arrives_in_order(start_gateway: Gateways) -> None:
    place = start(start_gateway, "20/s")
    cookie, answers = replies_to(place)
    replies = Outbox(place.core, "$replies.core")
    began = time.monotonic()
    bodies = [b"%d" % number for number in range(50)]
    with ThreadPoolExecutor() as aside:  # credit comes back with the outcomes that are given here
        sending = aside.submit(send_all, replies.peer, 0, [answer(cookie, body=body) for body in bodies])
        got = [sections(answers.take())["data"] for _ in range(50)]
        took = time.monotonic() - began
        assert sending.result() == 20  # one second's worth is unsettled
    assert got == [b"%d" % number for number in range(50)]
    assert took >= 1.45  # 20 at once, 30 more at 20 a second
    assert place.gateway.metrics().get('scopegate_outcomes_total{outcome="released",rule="$replies"}', 0) == 0


def test_links_of_one_user_share_the_rate(start_gateway: Gateways) -> None:
    place = start(start_gateway, "10/s")
    cookie, answers = replies_to(place)
    links = [Outbox(place.core, "$replies.core") for _ in range(3)]
    began = time.monotonic()
    for link in links:
        for _ in range(8):
            link.post(answer(cookie))
    for _ in range(24):
        answers.take()
    assert time.monotonic() - began >= 1.35  # 10 at once, 14 more at 10 a second
    assert all(Counter(outcomes(link.peer, 8).values()) == {"accepted": 8} for link in links)


def test_pre_settled_responses_wait_too(start_gateway: Gateways) -> None:
    place = start(start_gateway, "5/s")
    cookie, answers = replies_to(place)
    replies = Outbox(place.core, "$replies.core")
    for number in range(5):
        replies.post(answer(cookie, body=b"%d" % number), settled=True)
    other = Outbox(place.core, "$replies.core")
    other.post(answer(cookie, body=b"5"), settled=True)
    assert {sections(answers.take())["data"] for _ in range(6)} == {b"%d" % number for number in range(6)}


def test_a_wait_beyond_patience_is_released_and_other_messages_pass(start_gateway: Gateways) -> None:
    """On the anonymous terminus, credit is not only for responses: a waiting response must not delay other messages."""
    place = start(start_gateway, "12/m")
    cookie, answers = replies_to(place)
    anonymous = Outbox(place.core, None)
    for _ in range(30):
        anonymous.post(answer(cookie, to="$replies.core"))
    states = outcomes(anonymous.peer, 27)
    assert Counter(states.values()) == {"released": 27}
    assert min(states) == 3  # one went at once, two wait for up to ten seconds
    inbox = Inbox(place.core, "services/other")
    assert anonymous.send_and_accept(message(to="services/other"), inbox).matches("accepted")
    answers.take()
    answers.take()


def test_a_wait_ends_with_its_link(start_gateway: Gateways) -> None:
    place = start(start_gateway, "12/m")  # far more than two seconds from one to the next
    cookie, answers = replies_to(place, "svc")
    one, two = (Outbox(place.core, None) for _ in range(2))
    other, theirs = replies_to(place)
    assert two.send_and_accept(answer(other, to="$replies.core"), theirs).matches("accepted")
    one.post(answer(cookie, to="$replies.core"))
    one.peer.disconnect()
    place.gateway.wait_metric("scopegate_unsettled", lambda value: value == 0)
    assert two.send_and_accept(answer(cookie, to="$replies.core"), answers).matches("accepted")
    assert two.send(answer(cookie, to="$replies.core")).matches({"error": "amqp:unauthorized-access"})


@pytest.mark.parametrize("route", ["any", "svc"])
def test_what_came_settled_waits_on_though_its_link_has_ended(start_gateway: Gateways, route: str) -> None:
    """The sender cannot repeat settled messages; the same with a limit of uses (`svc`)."""
    place = start(start_gateway, "2/s")
    given = [replies_to(place, route) for _ in range(4)]
    replies = Outbox(place.core, None)
    for number, (cookie, _) in enumerate(given):
        replies.post(answer(cookie, body=b"%d" % number, to="$replies.core"), settled=True)
    replies.peer.detach(0).until("detach", closed=True)
    assert [sections(answers.take())["data"] for _, answers in given] == [b"0", b"1", b"2", b"3"]
    place.gateway.wait_metric('scopegate_held_bytes{kind="detached"}', lambda value: value == 0)


def test_what_came_settled_for_a_requester_that_left_is_counted_as_dropped(start_gateway: Gateways) -> None:
    place = start(start_gateway, "2/s")
    given = [replies_to(place) for _ in range(4)]
    for _, answers in given:
        answers.peer.detach(0).until("detach", closed=True)
    replies = Outbox(place.core, None)
    for cookie, _ in given:
        replies.post(answer(cookie, to="$replies.core"), settled=True)
    replies.peer.detach(0).until("detach", closed=True)
    place.gateway.wait_metric('scopegate_dropped_total{rule="$anonymous",scope="core"}', lambda value: value == 4)


def test_a_reload_changes_the_rate(start_gateway: Gateways) -> None:
    place = start(start_gateway, "1/h")
    cookie, answers = replies_to(place)
    replies = Outbox(place.core, None)
    first = answer(cookie, to="$replies.core")
    assert replies.send_and_accept(first, answers).matches("accepted")
    assert replies.send(first).matches("released")
    place.gateway.reload(place.gateway.policy.read_text().replace("    response_rate: 1/h\n", ""))
    for _ in range(5):
        assert replies.send_and_accept(first, answers).matches("accepted")


@pytest.fixture
def far(start_gateway: Gateways) -> Iterator[Far]:
    with Listener() as listener:
        yield Far(start_gateway, listener, "}\n    response_rate: 5/s  #")


def test_a_connector_is_one_responder(far: Far) -> None:
    """The gateway grants the container credit for one second's responses, and forwards no more in a second."""
    far.accept()
    inbox = Inbox(far.edge, "q/1")
    client = connected(far.edge)
    client.attach("sender-0", SENDER, target=frames.target("far/x"))
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach)
    client.until("attach")
    assert far.peer.until("flow", handle=responses).link_credit == 5
    Outbox.adopt(client).post(message(reply_to="q/1", message_id="m"))
    reported = sections(far.transfer(attach))["properties"]
    reply = message(b"yes", correlation_id=reported["message_id"])
    began = time.monotonic()
    with ThreadPoolExecutor() as aside:
        sending = aside.submit(send_all, far.peer, responses, [reply] * 10, granted=5)
        for _ in range(10):
            inbox.take()
        sending.result()
    assert time.monotonic() - began >= 0.95
