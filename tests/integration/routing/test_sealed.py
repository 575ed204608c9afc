"""The real process with `keys.seal` and `keys.skew`: neither scope's names are visible in the other, in both forms."""

from __future__ import annotations

import base64
import time

import pytest

from gateway.response.cookies.base64url import from_url
from tests.support.amqp.messages import message, sections
from tests.support.cli.commands import Result, run
from tests.support.gateway.crossing import KEY, Inbox, Outbox, Place, answer, cookie_of, hop_annotations, pair, start
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until

RING = "keys: {active: one, ring: {one: {env: SCOPEGATE_TEST_KEY}}"


def reload(place: Place, keys: str) -> None:
    policy = place.gateway.policy.read_text()
    assert RING in policy
    before, _, rest = policy.partition(RING)
    place.gateway.reload(before + RING + keys + rest[rest.index(", expiry") :])


def inspect(place: Place, text: str, *, key: str = KEY) -> Result:
    arguments = "cookie", "inspect", str(place.gateway.policy)
    return run(*arguments, text=text, env={"SCOPEGATE_TEST_KEY": key})


def responded(place: Place, *, capable: bool) -> tuple[bytes, Inbox, Outbox, bytes]:
    """The request as the service received it, the receiver and sender of responses, and their cookie or address."""
    service, client, answers, reply_to = pair(place, capable=capable)
    client.post(message(reply_to=reply_to, message_id="order-4711"))
    seen = service.take()
    if capable:
        return seen, answers, Outbox(place.core, "$replies.core"), cookie_of(seen)
    address = sections(seen)["properties"]["reply_to"]
    return seen, answers, Outbox(place.core, address), address.encode()


@pytest.mark.row("RA-2.4-3")
def test_sealed_requests_show_nothing_and_come_home_in_either_form(start_gateway: Gateways) -> None:
    place = start(start_gateway, "gw-sealed")
    signed = [responded(place, capable=capable) for capable in (True, False)]
    reload(place, ", seal: true")
    sealed = [responded(place, capable=capable) for capable in (True, False)]
    cookie, address = sealed[0][3], sealed[1][3].decode()
    name = sections(sealed[1][0])["properties"]["message_id"]
    tokens = [cookie, from_url(address.partition("/")[2].encode()), from_url(name.removeprefix("ID:sg-").encode())]
    assert [token[0] for token in tokens] == [3, 3, 3]
    for shown in (b"edge", b"q/", b"4711"):
        assert [token for token in tokens if shown in token] == []
    assert [token for token in (signed[0][3],) if b"edge" not in token] == []

    def assert_response_arrives(kind: int, request: tuple[bytes, Inbox, Outbox, bytes]) -> None:
        seen, answers, outbox, way = request
        reported = sections(seen)["properties"]["message_id"]
        data = answer(way) if kind == 0 else message(b"answer", correlation_id=reported)
        delivery = outbox.post(data)
        got = answers.take()
        assert outbox.outcome(delivery).matches("accepted")
        assert "address-cookie" not in hop_annotations(got)
        assert kind == 0 or sections(got)["properties"]["correlation_id"] == "order-4711"

    for kind in (0, 1):
        assert_response_arrives(kind, signed[kind])
        assert_response_arrives(kind, sealed[kind])
    reload(place, ", seal: false")
    for kind in (0, 1):
        assert_response_arrives(kind, sealed[kind])
    spoiled = cookie[:-1] + bytes([cookie[-1] ^ 1])
    assert sealed[0][2].send(answer(spoiled)).matches({"error": "amqp:unauthorized-access"})
    for text in (base64.b64encode(cookie).decode(), address, name):
        result = inspect(place, text)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.splitlines()[-1].split() == ["result", "valid"]
        assert "edge" in result.stdout
        assert KEY not in result.stdout
    assert inspect(place, spoiled.hex()).returncode == 1
    assert inspect(place, cookie.hex(), key="A" * 43).returncode == 1


@pytest.mark.row("RA-2.3-14")
@pytest.mark.parametrize("capable", [True, False])
def test_skew_lets_the_late_in_and_the_later_not(start_gateway: Gateways, capable: bool) -> None:
    place = start(start_gateway, "gw-skew", expiry="1s")
    reload(place, ", seal: true, skew: 8s")
    _, answers, outbox, way = responded(place, capable=capable)
    data = answer(way) if capable else message(b"answer")
    made = time.time()
    wait_until(lambda: time.time() > made + 1.2, "the expiry to pass")
    assert outbox.send_and_accept(data, answers).matches("accepted")
    wait_until(lambda: time.time() > made + 9.2, "the allowance to pass")
    assert outbox.send(data).matches({"error": "amqp:precondition-failed"})
    assert answers.empty()
