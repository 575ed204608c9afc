"""Chapter 1: a request from scope `edge` to a service in scope `core`, annotated and then rewritten (RA 2)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

from proton import Connection, Message

from gateway.amqp.codec.codec import Timestamp, encode
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.message.sections import (
    DELIVERY_ANNOTATIONS,
    Properties,
    annotations_section,
    application_properties,
    body_values,
    delivery_annotations,
    message_annotations,
    properties,
    splice,
    walk,
)
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from gateway.quickstart.checks import Checks, attempt
from gateway.quickstart.clients import ACCEPTED, Announce, Clients, Inbox, SendOutcome, SendQueue
from gateway.quickstart.ports import CORE, EDGE, Ports
from gateway.quickstart.terminal_output import TerminalOutput
from gateway.response.annotations import REQUEST_ANNOTATIONS, REQUEST_COOKIE, REQUEST_TARGET, RESPONSE_COOKIE
from gateway.response.cookies.cookie import describe
from gateway.response.cookies.reader import open_cookie

CAPABILITY: Final = "response-address-supported"
_SERVICE: Final = "svc/echo"
_SERVED: Final = "services/echo"
_BODY: Final = "Two pounds of tea, please."
_FIELDS: Final = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip


class Stage(NamedTuple):
    """The ports, output and checks of the chapter."""

    place: Ports
    screen: TerminalOutput
    checks: Checks
    clients: Clients
    core: Connection


class CrossingClient(NamedTuple):
    """The requesting client, with the same links and request for both services."""

    requests: SendQueue
    replies: Inbox
    request: bytes


def show(place: Ports, screen: TerminalOutput, checks: Checks) -> None:
    """Both services in turn; then compare what the client saw."""
    screen.heading("1  A request crosses the boundary, and its response returns")
    with Clients() as clients:
        stage = Stage(place, screen, checks, clients, clients.connect(place.core))
        client = _client(stage)
        jobs = clients.receiver(stage.core, _SERVED, options=[Announce(CAPABILITY)])
        first = _annotated(stage, client, jobs)
        jobs.close()
        jobs = clients.receiver(stage.core, _SERVED)
        second = _rewritten(stage, client, jobs)
        _compare(stage, first, second)


def _client(stage: Stage) -> CrossingClient:
    edge = stage.clients.connect(stage.place.edge)
    replies = stage.clients.receiver(edge, None)
    requests = stage.clients.sender(edge, _SERVICE)
    message = Message(
        id="order-1", reply_to=replies.address, subject="order", body=_BODY, properties={"shop": "harbour"}
    )
    stage.screen.say(
        f"A client in scope {EDGE} knows the address {_SERVICE}, and nothing of scope {CORE}. It takes answers at a "
        f"temporary address the gateway made for it: {replies.address}"
    )
    return CrossingClient(requests, replies, message.encode())


# -- a service that supports annotations


def _annotated(stage: Stage, client: CrossingClient, jobs: Inbox) -> bytes:
    screen, checks = stage.screen, stage.checks
    screen.gap()
    screen.say(f"In {CORE} a service serves {_SERVED} and announces {CAPABILITY}.")
    posted = client.requests.post(client.request)
    screen.step("client", _SERVICE, f'"{_BODY}"')
    asked = jobs.take("the request at the service")
    layout, sent = walk(asked), walk(client.request)
    annotations = delivery_annotations(asked, layout)
    _show_annotations(stage, client, annotations)
    checks.equal(
        f"the service has the client's message byte for byte ({len(client.request) - sent.bare} bytes)",
        asked[layout.bare :], client.request[sent.bare :],
    )  # fmt: skip
    checks.equal("the client's outcome is accepted, as the service's", client.requests.outcome(posted), ACCEPTED)
    return _answer(stage, client, asked, annotations)


def _show_annotations(stage: Stage, client: CrossingClient, annotations: ValueMap) -> None:
    screen, checks = stage.screen, stage.checks
    screen.step("gateway", _SERVED, "the same message, with three delivery annotations:")
    keys = sorted(str(key) for key in annotations)
    screen.table([(key, _shown(annotations[key])) for key in keys])
    checks.equal("the request carries exactly these annotations", keys, sorted(REQUEST_ANNOTATIONS))
    cookie = annotations[REQUEST_COOKIE]
    opened = attempt(
        "the cookie opens with the gateway's key", "a genuine cookie",
        lambda: open_cookie(stage.place.ring, cookie, time.time_ns() // 1_000_000), AmqpError, TypeError,
    )  # fmt: skip
    screen.step("cookie", "opened with the key", "what the gateway keeps no table of:")
    screen.table(list(describe(opened).items()))
    opened_fields = (opened.scope, opened.address, opened.link_target)
    checks.equal(
        "it names the client's scope and address, and the one place where it is good",
        opened_fields, (EDGE, client.replies.address, annotations[REQUEST_TARGET]),
    )  # fmt: skip


def _shown(value: object) -> str:
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return f"{len(value)} bytes: {value.hex()}" if isinstance(value, bytes) else str(value)


def _answer(stage: Stage, client: CrossingClient, asked: bytes, annotations: ValueMap) -> bytes:
    """The service's answers: one with a forged cookie, one with the real one; returns what the client received."""
    screen, checks = stage.screen, stage.checks
    target, cookie = str(annotations[REQUEST_TARGET]), annotations[REQUEST_COOKIE]
    answers = stage.clients.sender(stage.core, target)
    answer = _reply(asked)
    screen.step("service", target, "first a forgery: the cookie with one bit changed")
    refused = answers.send(_with_cookie(answer, cookie[:-1] + bytes([cookie[-1] ^ 1])))
    checks.equal(f"refused: {refused}", refused, SendOutcome("rejected", UNAUTHORIZED_ACCESS))
    screen.step("service", target, f'"{_BODY}" with the real cookie')
    posted = answers.post(_with_cookie(answer, cookie))
    got = client.replies.take("the answer at the client")
    screen.step("gateway", "client", f'"{_text(got)}"')
    layout = walk(got)
    checks.equal("the answer carries the body of the request", _text(got), _text(client.request))
    checks.equal("it came home byte for byte", got[layout.bare :], answer[walk(answer).bare :])
    checks.equal("and without the cookie", delivery_annotations(got, layout), {})
    checks.equal("the service's outcome is accepted", answers.outcome(posted), ACCEPTED)
    return got


def _with_cookie(answer: bytes, cookie: bytes) -> bytes:
    section = annotations_section(DELIVERY_ANNOTATIONS, {RESPONSE_COOKIE: encode(cookie)})
    return splice(answer, walk(answer), da=section)


def _reply(asked: bytes) -> bytes:
    """The response to any request: the same body, sent to the reply-to, with the message-id as correlation-id."""
    request = Message()
    request.decode(asked)
    reply = Message(address=request.reply_to, correlation_id=request.id, body=request.body)
    return bytes(reply.encode())


# -- a service that does not


def _rewritten(stage: Stage, client: CrossingClient, jobs: Inbox) -> bytes:
    screen, checks = stage.screen, stage.checks
    screen.gap()
    screen.say(
        "Now an old service takes over, which knows nothing of annotations. The client's links stay, "
        "and it asks again with the very same bytes."
    )
    posted = client.requests.post(client.request)
    screen.step("client", _SERVICE, f'"{_BODY}"')
    asked = jobs.take("the request at the old service")
    before, after = _properties(client.request), _properties(asked)
    screen.step("gateway", _SERVED, "a new message, which any service can answer:")
    changed = [name for name in _FIELDS if before[name] != after[name]]
    screen.table([(_dashed(name), before[name], after[name]) for name in changed], ("field", "before", "after"))
    _check_rewritten(stage, client, asked, changed)
    checks.equal("the client's outcome is accepted", client.requests.outcome(posted), ACCEPTED)
    reply_to = after["reply_to"]
    answers = stage.clients.sender(stage.core, reply_to)
    screen.step("service", f"{reply_to[:18]}...", f'"{_BODY}" to that address, about that id')
    outcome = answers.post(_reply(asked))
    got = client.replies.take("the answer of the old service at the client")
    screen.step("gateway", "client", f'"{_text(got)}"')
    checks.equal("the service's outcome is accepted", answers.outcome(outcome), ACCEPTED)
    return got


def _check_rewritten(stage: Stage, client: CrossingClient, asked: bytes, changed: list[str]) -> None:
    layout, sent = walk(asked), walk(client.request)
    stage.checks.equal("only these two fields differ", changed, ["message_id", "reply_to"])
    stage.checks.equal(
        "application properties and body are byte-equal, and there is no annotation",
        (asked[layout.app :], asked[layout.da : layout.bare]), (client.request[sent.app :], b""),
    )  # fmt: skip


# -- the client's view


def _compare(stage: Stage, first: bytes, second: bytes) -> None:
    screen, checks = stage.screen, stage.checks
    screen.gap()
    screen.say("What the client saw of the two services, field by field:")
    one, two = _seen(first), _seen(second)
    screen.table([(_dashed(name), one[name], two[name]) for name in one if (one[name], two[name]) != ("-", "-")],
                 ("field", "from the new service", "from the old one"))  # fmt: skip
    checks.equal("all sections are equal: the client cannot tell the difference", two, one)


def _seen(data: bytes) -> dict[str, str]:
    """All fields of a message that are visible to its receiver."""
    layout = walk(data)
    maps = {
        "delivery annotations": delivery_annotations(data, layout),
        "message annotations": message_annotations(data, layout),
        "application properties": application_properties(data, layout),
    }
    annotations = {name: str(value) if value else "-" for name, value in maps.items()}
    return {**_properties(data), **annotations, "body": _text(data)}


def _properties(data: bytes) -> dict[str, str]:
    view: Properties = properties(data, walk(data))
    values = ((name, getattr(view, name)) for name in _FIELDS)
    return {name: "-" if value is None else str(value) for name, value in values}


def _text(data: bytes) -> str:
    return str(body_values(data, walk(data))[0])


def _dashed(name: str) -> str:
    return name.replace("_", "-")
