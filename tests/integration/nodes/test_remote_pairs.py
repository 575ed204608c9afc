"""`$me` to a service behind a connector, in the client's own scope and across: the response comes on the paired link.

The container cannot reach a paired link, and in the client's own scope it would be asked nothing else: so requests
with `$me` name the connector's response address, and all others pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import Inbox, connected, hop_annotations
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.pairs import Paired, attach_half, paired_with

Fars = Callable[[], Far]


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Fars]:
    with Listener() as listener:
        yield lambda: Far(start_gateway, listener, "")


def pair_at(far: Far, port: int, *, capable: bool) -> tuple[Paired, int, frames.Frame]:
    """Attach a pair to an address of the container; return it, our handle for its responses, and the attach there."""
    peer = connected(port)
    peer.attach("p", SENDER, **attach_half("far/x", SENDER))
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    assert not {str(name) for name in attach.properties or {}} & {"paired"}  # the pair ends at this gateway
    far.take(attach, capable=capable)
    return paired_with(peer, "far/x"), responses, attach


@pytest.mark.row("RA-2.3-8", "CORE-10")
@pytest.mark.parametrize("scope", ["core", "edge"])
@pytest.mark.parametrize("capable", [True, False])
def test_me_is_answered_on_the_pair_from_behind_a_connector(fars: Fars, scope: str, capable: bool) -> None:
    far = fars().accept("RESPONSE_ANNOTATIONS_V1_0")
    pair, responses, attach = pair_at(far, getattr(far, scope), capable=capable)
    sent = message(b"ask", reply_to="$me", message_id="m")
    delivery = pair.requests.post(sent)
    got = far.transfer(attach)
    asked, reported = sections(got)["properties"], hop_annotations(got)
    if capable:
        assert bare(got) == bare(sent)
        assert reported["response-link-target-address"] == "dynamic-1"
        reply = message(b"yes", correlation_id="m", da={"address-cookie": reported["response-address-cookie"]})
    else:
        assert (asked["reply_to"], reported) == ("dynamic-1", {})
        reply = message(b"yes", to="dynamic-1", correlation_id=asked["message_id"])
    far.peer.disposition(0, "accepted")
    assert pair.requests.outcome(delivery).matches("accepted")
    far.peer.transfer(reply, responses)
    back = sections(pair.responses.take())
    assert (back["data"], back["properties"]["correlation_id"]) == (b"yes", "m")
    assert far.peer.until("disposition", role=RECEIVER).state.matches("accepted")


def test_other_reply_addresses_of_the_scope_pass_a_pair_unchanged(fars: Fars) -> None:
    far = fars().accept()
    pair, _, attach = pair_at(far, far.core, capable=False)
    sent = message(b"ask", reply_to="far/answers", message_id="m")
    pair.requests.post(sent)
    assert far.transfer(attach) == sent


@pytest.mark.row("RA-2.3-8")
def test_without_a_pair_me_goes_to_the_container_as_it_is(fars: Fars) -> None:
    """It is an address of that hop then, and no business of ours: nothing is made for its responses."""
    far = fars().accept()
    client = connected(far.core)
    client.attach("lone", SENDER, target=frames.target("far/x"))
    attach = far.attach()
    assert attach.role is SENDER
    far.take(attach)
    client.until("attach")
    client.transfer(message(b"ask", reply_to="$me"))
    assert sections(far.transfer(attach))["properties"]["reply_to"] == "$me"


def test_a_response_after_the_pair_is_gone_is_not_found(fars: Fars) -> None:
    far = fars().accept()
    pair, responses, attach = pair_at(far, far.core, capable=False)
    pair.requests.post(message(b"ask", reply_to="$me", message_id="m"))
    asked = sections(far.transfer(attach))["properties"]
    pair.responses.detach()
    far.peer.transfer(message(b"late", correlation_id=asked["message_id"]), responses)
    assert far.peer.until("disposition", role=RECEIVER).state.matches({"error": "amqp:not-found"})
    assert Inbox(far.core, "here/1").empty()
