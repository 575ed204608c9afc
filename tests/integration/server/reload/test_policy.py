"""Reloads of the running gateway, by SIGHUP and by a changed file: which links stay, which go (row X-8)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from proton import Message

from tests.support.amqp.links import connected, outcomes, passes, receiving, refusal, sending
from tests.support.amqp.messages import message
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways

KEYS = {"SCOPEGATE_TEST_KEY": "k" * 43}
MANY = 4000
REFUSED = "policy reload rejected, keeping the current policy"


# -- links that stay


@pytest.mark.row("X-8")
@pytest.mark.parametrize("path", ["direct", "anonymous", "relay"])
def test_traffic_on_links_that_stay_loses_nothing(start_gateway: Gateways, path: str) -> None:
    document = Document()
    core = document.relay(replies="none")
    gateway = start_gateway(document.text, env=KEYS)
    port, source, target = {
        "direct": (document.edge, "chat/room", "chat/room"),
        "anonymous": (document.edge, "chat/room", None),
        "relay": (core, "services/room", "svc/room"),
    }[path]
    receiver = receive(Login(port), source, MANY).attached()
    bodies = list(range(MANY))
    sender = send(Login(document.edge), target, [Message(body=n, address="chat/room") for n in bodies])
    reloads = 0
    while not reloads or (len(receiver.received) < MANY and reloads < 20):
        changed = document.but()
        changed.scope()["addresses"].append({"match": f"more/{reloads}", "direct": "balanced"})
        gateway.reload(changed.text)
        reloads += 1
    assert {each.name for each in sender.finish()} == {"accepted"}
    assert [each.message.body for each in receiver.finish()] == bodies
    assert gateway.metrics()['scopegate_reloads_total{result="ok"}'] >= reloads >= 1


def test_messages_that_wait_for_a_destination_get_an_outcome(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    with receiving(document.edge, "chat/slow", credit=1), sending(document.edge, None) as sender:
        for number in range(3):
            sender.transfer(message(b"%d" % number, to="chat/slow"))
        gateway.wait_metric("scopegate_unsettled", lambda value: value >= 1)
        removed = document.but()
        removed.scope()["addresses"] = [{"match": "chat/fast", "direct": "balanced"}]
        gateway.reload(removed.text)
        assert set(outcomes(sender, 3).values()) <= {"modified", "released", "rejected"}
        sender.transfer(message(b"after", to="chat/slow"))
        sender.until("disposition", first=3, state={"error": "amqp:not-found"})


# -- links that go


@pytest.mark.row("X-8")
def test_links_that_are_no_longer_allowed_hear_why(start_gateway: Gateways) -> None:
    document = Document()
    document.scope()["addresses"].append({"match": "gone", "direct": "balanced"})
    gateway = start_gateway(document.text)
    stays = receiving(document.edge, "chat/stays"), sending(document.edge, "chat/stays")
    denied, unknown = receiving(document.edge, "chat/denied"), receiving(document.edge, "gone")
    changed = document.but()
    changed.scope()["access"] = [{"who": "*", "may": ["send", "receive"], "on": "chat/stays"}]
    changed.scope()["addresses"].pop()
    line = gateway.reload(changed.text)
    assert line["links_closed"] == 2
    denied.until("detach", closed=True, error="amqp:unauthorized-access")
    unknown.until("detach", closed=True, error="amqp:not-found")
    passes(stays[1], stays[0], 0)
    assert refusal(document.edge, "chat/denied") == "amqp:unauthorized-access"
    assert refusal(document.edge, "gone") == "amqp:not-found"
    denied.detach().attach_receiver("chat/stays", handle=1)  # the connection of a closed link goes on


def test_a_link_into_another_scope_hears_that_its_rule_has_changed(start_gateway: Gateways) -> None:
    """It is a rule of its own scope, and no word of the other one."""
    document = Document()
    document.relay(replies="none")
    gateway = start_gateway(document.text, env=KEYS)
    peer = receiving(document.edge, "svc/a")
    changed = document.but()
    changed.scope()["addresses"][-1] |= {"match": "svc/{other}", "address": "services/{other}"}
    gateway.reload(changed.text)
    error = peer.until("detach", closed=True).error
    assert error["description"] == "the rule for this address has changed; attach again"


@pytest.mark.parametrize(
    "rule",
    [
        {"match": "chat/**", "direct": "multicast"},
        {"match": "chat/{name}", "relay": "core", "address": "services/{name}", "replies": "none"},
        {"match": "chat/{name}", "kafka": "main", "topic": "{name}"},
    ],
    ids=["multicast", "relay", "kafka"],
)
def test_another_route_at_the_same_address(start_gateway: Gateways, rule: dict[str, Any]) -> None:
    document = Document()
    document.relay()
    document.kafka("embedded", topics={"room": 1})
    gateway = start_gateway(document.text, env=KEYS)
    receiver, sender = receiving(document.edge, "chat/room"), sending(document.edge, "chat/room")
    other = document.but()
    other.scope()["addresses"][0] = rule
    gateway.reload(other.text)
    receiver.until("detach", closed=True, error="amqp:link:detach-forced")
    sender.until("detach", closed=True, error="amqp:link:detach-forced")
    again = receiving(document.edge, "chat/room")
    gateway.reload(document.text)
    again.until("detach", closed=True, error="amqp:link:detach-forced")


def test_the_anonymous_terminus_can_be_taken_away(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    sender, temporary = connected(document.edge), connected(document.edge)
    sender.attach_sender(None)
    without = document.but()
    without.scope()["anonymous_relay"] = False
    gateway.reload(without.text)
    sender.until("detach", closed=True, error="amqp:not-implemented")
    temporary.close().until("close")


# -- wrong files


@pytest.mark.row("X-8")
def test_a_wrong_file_keeps_the_old_policy_and_is_reported(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    receiver, sender = receiving(document.edge, "chat/room"), sending(document.edge, "chat/room")
    wrong = document.but()
    wrong.scope()["acess"] = wrong.scope().pop("access")
    wrong.scope()["listen"][0]["bind"] = "nowhere"
    said = gateway.reload(wrong.text, ok=False)["problems"]
    for key, near in (("acess", "access"), ("bind", "host:port")):
        (problem,) = [each for each in said if key in each]
        assert problem.startswith(f"{gateway.policy}:{wrong.line_of(chr(34) + key)}:")
        assert near in problem
    passes(sender, receiver, 0)
    gateway.reload("{", ok=False)
    gateway.policy.unlink()
    gateway.reload(ok=False)
    passes(sender, receiver, 1)
    # A signal and a look at the file by itself may be two reloads of one change.
    assert gateway.metrics()['scopegate_reloads_total{result="failed"}'] >= 3
    gateway.reload(document.text)
    passes(sender, receiver, 2)
    assert gateway.is_ready()


# -- a changed file, without a signal


@pytest.mark.row("X-8")
def test_a_changed_file_is_noticed(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    goes = receiving(document.edge, "chat/room")
    before = len(gateway.log())
    changed = document.but()
    changed.scope()["access"] = []
    beside = gateway.policy.with_name("new.yaml")
    beside.write_text(changed.text)
    os.replace(beside, gateway.policy)
    gateway.wait_log("policy reloaded", after=before)
    goes.until("detach", error="amqp:unauthorized-access")
    before = len(gateway.log())
    gateway.policy.write_text("scopes: 7")
    gateway.wait_log(REFUSED, after=before)
    gateway.policy.write_text(document.text)
    gateway.wait_log("policy reloaded", after=before)
    receiving(document.edge, "chat/room").close()
