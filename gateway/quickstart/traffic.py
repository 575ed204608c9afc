"""Traffic for the data pipeline's walkthrough: a producer, a lagging group, an audit with a filter, a refused link."""

from __future__ import annotations

import json
import time
from typing import Final, NamedTuple

from proton import Connection, Described, Link, Message, symbol
from proton.reactor import Filter, LinkOption

from gateway.amqp.message.sections import message_annotations, walk
from gateway.errors import UNAUTHORIZED_ACCESS
from gateway.filters.parse.filter_set import SQL
from gateway.filters.position.event_stream import EARLIEST, FILTER_NAME, OFFSET
from gateway.quickstart.checks import Checks
from gateway.quickstart.clients import ACCEPTED, Announce, ClientError, Clients, Inbox
from gateway.quickstart.crossing import CAPABILITY
from gateway.quickstart.ports import Ports
from gateway.quickstart.terminal_output import TerminalOutput
from gateway.routing.event_annotations import GROUP

COUNT: Final = 5000
RED: Final = 500
ORDERS: Final = "events/orders"
AGAIN: Final = "events/again"
REFUSED: Final = "payroll/salaries"
ASKED: Final = "svc/echo"
REQUESTS: Final = 20
_SERVED: Final = "services/echo"
_PARTITIONS: Final = 3
_ROUNDS: Final = 10
_SLOW: Final = range(3, 7)
"""Rounds in which the group receives few messages."""
_LITTLE: Final = 50
_PACE: Final = 0.7
"""Seconds of a round: longer than an interval of the journal."""
_CUSTOMERS: Final = 40
_KEY: Final = "event-streams-group-key"


class SentTraffic(NamedTuple):
    """An event as its producer sent it; `bare` is the expected bare message."""

    key: str
    message: bytes
    bare: bytes


class Member(LinkOption):
    """Makes a receiver one of a consumer group."""

    def __init__(self, group: str) -> None:
        self._group = group

    def apply(self, link: Link) -> None:
        """Name the group in the properties of the link."""
        link.properties = {symbol(GROUP): self._group}


def make(place: Ports, screen: TerminalOutput, checks: Checks) -> list[SentTraffic]:
    """Send and receive all traffic; returns the sent events."""
    screen.heading("1  Traffic through the gateway")
    events = [_order(number) for number in range(COUNT)]
    with Clients() as clients:
        edge = clients.connect(place.edge)
        screen.step("producer", ORDERS, f"{COUNT:,} orders of {_CUSTOMERS} customers, one in ten is red")
        members = [clients.receiver(edge, ORDERS, options=[Member("billing")]) for _ in range(_PARTITIONS)]
        red = {symbol("red"): Described(symbol(SQL), "a.color = 'red'")}
        audit = clients.receiver(edge, ORDERS, options=[Filter(red)])
        _orders(clients, edge, events, members, checks)
        checks.equal(f"group billing has them all, through {_PARTITIONS} links", _come(members), COUNT)
        reds = audit.take_all(RED, "red orders")
        checks.equal("the audit has the red ones, filtered by the gateway", len(reds), RED)
        _ask(clients, edge, clients.connect(place.core), checks)
    _refused(place, checks)
    return events


def _orders(
    clients: Clients, edge: Connection, events: list[SentTraffic], members: list[Inbox], checks: Checks
) -> None:
    """Run the rounds; for a while the group lags behind."""
    sender = clients.sender(edge, ORDERS)
    tags, size = [], COUNT // _ROUNDS
    for number in range(_ROUNDS):
        over = time.monotonic() + _PACE
        tags += [sender.post(event.message) for event in events[number * size : (number + 1) * size]]
        _take(clients, members, _come(members) + _LITTLE if number in _SLOW else (number + 1) * size)
        clients.wait(lambda over=over: time.monotonic() >= over, "time to pass")  # type: ignore[misc]
    outcomes = {sender.outcome(tag) for tag in tags}
    checks.equal(f"{COUNT:,} accepted, each after Kafka's acknowledgement", outcomes, {ACCEPTED})


def _take(clients: Clients, members: list[Inbox], wanted: int) -> None:
    """Grant credit and take messages of any member until `wanted` have arrived."""

    def there() -> bool:
        missing = wanted - _come(members)
        for member in members if missing > 0 else ():
            member.ask(min(missing, _LITTLE))
        return missing <= 0

    clients.wait(there, lambda: f"{wanted} orders at the group ({_come(members)} came)")


def _come(inboxes: list[Inbox]) -> int:
    return sum(inbox.count for inbox in inboxes)


def _ask(clients: Clients, edge: Connection, core: Connection, checks: Checks) -> None:
    service = clients.receiver(core, _SERVED, options=[Announce(CAPABILITY)])
    client = clients.sender(edge, ASKED)
    responses = clients.receiver(edge, None)
    service.ask(REQUESTS)
    request = Message(body="?", reply_to=responses.address).encode()
    tags = [client.post(request) for _ in range(REQUESTS)]
    service.take_all(REQUESTS, "requests at the service")
    checks.equal(
        f"{REQUESTS} requests crossed from scope edge into core", {client.outcome(tag) for tag in tags}, {ACCEPTED}
    )


def _refused(place: Ports, checks: Checks) -> None:
    try:
        with Clients() as clients:
            clients.receiver(clients.connect(place.edge), REFUSED)
        result = "attached"
    except ClientError as error:
        result = str(error).partition(": ")[0]
    checks.equal(f"nobody may read {REFUSED}: {UNAUTHORIZED_ACCESS}", result, UNAUTHORIZED_ACCESS)


def _order(number: int) -> SentTraffic:
    customer = f"customer-{number % _CUSTOMERS * (number % 3 > 0):02}"  # customer-00 orders more than others
    body = json.dumps({"order": number, "customer": customer}).encode()
    color = "red" if number % (COUNT // RED) == 0 else "blue"
    made = Message(
        body=body, inferred=True, content_type="application/json", properties={"color": color, "number": number},
        annotations={symbol(_KEY): customer},
    )  # fmt: skip
    message = bytes(made.encode())
    return SentTraffic(customer, message, message[walk(message).bare :])


def read_again(place: Ports, count: int) -> list[tuple[str, bytes]]:
    """Key and bare message of the events at `events/again`, in order."""
    with Clients() as clients:
        wanted = Described(symbol(FILTER_NAME), {symbol(OFFSET): symbol(EARLIEST)})
        inbox = clients.receiver(clients.connect(place.edge), AGAIN, options=[Filter({symbol("start"): wanted})])
        return [_keyed(message) for message in inbox.take_all(count, f"events from {AGAIN}")]


def _keyed(message: bytes) -> tuple[str, bytes]:
    layout = walk(message)
    return str(message_annotations(message, layout).get(_KEY)), bytes(message[layout.bare :])
