"""Requests and responses across a boundary between unmodified clients: proton, Qpid JMS and rhea in either role.

Each requester with each responder where requests are rewritten; with those responders that can follow annotations
(JMS shows its applications none) where they carry cookies; with a gateway that restarts, or another process, between
request and response. RA-E2E-1, -2 and -5.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from proton import Message

from tests.support.amqp.foreign import Foreign, Running
from tests.support.amqp.proton_clients import (
    Announce,
    Login,
    Receiving,
    Responding,
    echo_with_cookie,
    receive,
    request,
    respond,
    send,
)
from tests.support.gateway.crossing import SUPPORTED, Place, start
from tests.support.gateway.gateway import Gateways

LIBRARIES = ["proton", "jms", "rhea"]
COUNT = 3


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-dialogues")


class Answer(NamedTuple):
    """A response as a requester got it."""

    correlation: object
    body: str


def re(message: Message) -> Message:
    """Answer as the other libraries' responders do."""
    return Message(body=f"re: {message.body}")


def re_with_cookie(message: Message) -> Message:
    """The same, as RA 2.4 asks."""
    response = echo_with_cookie(message)
    response.body = f"re: {message.body}"
    return response


def serve(library: str, port: int, address: str, *, annotated: bool) -> Running | Responding:
    """Start a responder that answers COUNT requests."""
    if library == "proton":
        answering = re_with_cookie if annotated else re
        return respond(Login(port), address, answering, annotated=annotated).attached()  # type: ignore[no-any-return]
    options = {"annotated": "yes"} if annotated else {}
    return Foreign(library, port).run("respond", address, count=COUNT, **options).attached()


def ask(library: str, port: int, address: str) -> list[Answer]:
    """Ask COUNT times."""
    if library == "proton":
        asked = [Message(correlation_id=f"request-{n}", body=f"hello {n}") for n in range(COUNT)]
        got = [each.message for each in request(Login(port), address, asked)]
        return [Answer(each.correlation_id, str(each.body)) for each in got]
    lines = Foreign(library, port).run("request", address, count=COUNT, body="hello {n}").finish()
    return [Answer(line["correlation_id"], line["body"]) for line in lines]


def ended(responder: Running | Responding) -> None:
    """Stop a responder and raise what went wrong there."""
    if isinstance(responder, Running):
        responder.finish()
    else:
        responder.stop()


ANSWERS = [Answer(f"request-{n}", f"re: hello {n}") for n in range(COUNT)]


@pytest.mark.row("RA-2.5-1", "RA-2.5-5", "RA-2.5-6", "RA-3-3")
@pytest.mark.parametrize("responder", LIBRARIES)
@pytest.mark.parametrize("requester", LIBRARIES)
def test_rewritten(place: Place, requester: str, responder: str) -> None:
    name = f"rewritten-{requester}-{responder}"
    serving = serve(responder, place.core, f"services/{name}", annotated=False)
    assert ask(requester, place.edge, f"svc/{name}") == ANSWERS
    ended(serving)


@pytest.mark.row("RA-2-2", "RA-2-3", "RA-2.2-2", "RA-2.4-1", "RA-3-2")
@pytest.mark.parametrize("responder", ["proton", "rhea"])
@pytest.mark.parametrize("requester", LIBRARIES)
def test_annotated(place: Place, requester: str, responder: str) -> None:
    """`replies: cookie`: without an annotation at the responder there would be no response."""
    name = f"annotated-{requester}-{responder}"
    serving = serve(responder, place.core, f"services/{name}", annotated=True)
    assert ask(requester, place.edge, f"cookie/{name}") == ANSWERS
    ended(serving)


@pytest.mark.row("RA-2.5-6", "RA-2.4-1")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("annotated", [False, True])
def test_a_restart_and_another_process_between_request_and_response(
    start_gateway: Gateways, library: str, annotated: bool
) -> None:
    """The service keeps two requests; one is answered after a restart, one through a process that shares the keys."""
    first, other = start(start_gateway, "gw-first"), start(start_gateway, "gw-other")
    options = Announce(SUPPORTED) if annotated else None
    login = Login(first.core, offers="RESPONSE_ANNOTATIONS_V1_0" if annotated else None)
    service = receive(login, "services/late", 2, options=options).attached()
    asked = [Message(body=f"hello {n}", reply_to="q/late", correlation_id=f"request-{n}") for n in range(2)]
    assert [each.name for each in send(Login(first.edge), "svc/late", asked).finish()] == ["accepted"] * 2
    kept = [each.message for each in service.finish()]
    first.gateway.kill()
    first.gateway.restart()
    for n, (home, asked_there) in enumerate(zip((first, other), kept, strict=True)):
        waiting = wait_at(library, home.edge, "q/late")
        response = re_with_cookie(asked_there) if annotated else re(asked_there)
        response.address = response.address or asked_there.reply_to
        response.correlation_id = asked_there.correlation_id
        assert [each.name for each in send(Login(home.core), None, [response]).finish()] == ["accepted"]
        assert received_message(waiting) == Answer(f"request-{n}", f"re: hello {n}")


def wait_at(library: str, port: int, address: str) -> Running | Receiving:
    """Start a receiver of one message."""
    if library == "proton":
        return receive(Login(port), address, 1).attached()  # type: ignore[no-any-return]
    return Foreign(library, port).run("receive", address, count=1).attached()


def received_message(receiver: Running | Receiving) -> Answer:
    """Wait for that message."""
    if isinstance(receiver, Running):
        (line,) = receiver.finish()
        return Answer(line["correlation_id"], line["body"])
    (got,) = receiver.finish()
    return Answer(got.message.correlation_id, str(got.message.body))
