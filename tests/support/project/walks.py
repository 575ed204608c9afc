"""`python -m tests.support.project.walks`: the functions that a message passes on its way (docs/design.md).

The gateway runs in this process. Scripted peers in another thread send some messages first and then one that is
followed: each Python function of the product is printed in the order of its first call.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, groupby
from pathlib import Path
from textwrap import fill
from types import FrameType
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import Producer

from gateway.cli.main import main
from tests.support.amqp.links import receiving, sending
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import KEY, Outbox, Place, pair
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway
from tests.support.gateway.process import answers, wait_until
from tests.support.project.parts import ROOT

WARM, FOLLOWED, SETTLED = 3, 5, 0.2
"""Messages before those that are followed; these, of which the shortest walk counts; seconds between them."""
BACKGROUND: Final = (
    "gateway.tasks", "gateway.observability", "gateway.held", "gateway.server.process", "gateway.server.listeners",
    "gateway.server.memory", "gateway.server.metrics.loop_lag", "gateway.routing.response_times._",
    "bridges.kafka.produce.client", "bridges.kafka.produce.producer",
)  # fmt: skip
"""What also runs now and then, for reasons of its own, such as one request in 50 ms that is timed. `event in` counts
the producer, though."""
_OURS: Final = tuple(f"{ROOT}/{package}/" for package in ("gateway", "bridges"))
_INNER: Final = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>", "<module>")
Walk = Callable[[Place], Iterator[None]]


class Recorder:
    """Functions of the product in the order of their first calls, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.found: dict[str, None] = {}

    def heard(self, frame: FrameType, event: str, argument: Any) -> None:
        """The profile function of each thread that may carry the message."""
        code = frame.f_code
        if not self.on or not code.co_filename.startswith(_OURS):
            return
        if event == "call" and not code.co_name.startswith(_INNER):
            self.found.setdefault(f"{_module(code.co_filename)}.{code.co_qualname}")


def _module(file: str) -> str:
    return str(Path(file).relative_to(ROOT).with_suffix("")).replace("/", ".")


def document() -> tuple[Document, int]:
    """Two scopes with a rule between them, and an embedded Kafka; the port of the second scope."""
    made = Document(admin={"listen": "off"})  # it looks at the credit of links once a second
    core = made.relay(replies="rewrite")
    made.scope()["addresses"].append({"match": "q/**", "direct": "balanced"})
    made.kafka("embedded", topics={"log": 1})
    return made, core


def request_and_response(place: Place) -> Iterator[None]:
    """A request to another scope, rewritten there, and its response to the requester's address."""
    service, client, inbox, reply_to = pair(place, "svc", capable=False)
    replies = Outbox(place.core, None)
    for number in count():
        sent = client.post(message(b"question", reply_to=reply_to, message_id=f"m{number}"))
        asked = sections(service.take())["properties"]
        client.outcome(sent)
        answer = replies.post(message(b"answer", to=asked["reply_to"], correlation_id=asked["message_id"]))
        inbox.take()
        replies.outcome(answer)
        yield


def event_in(place: Place) -> Iterator[None]:
    """A message to a topic, until its outcome is here."""
    sender = sending(place.edge, "events/log")
    while True:
        sender.transfer(message(b"event"))
        sender.until("disposition", state="accepted")
        yield


def event_out(place: Place) -> Iterator[None]:
    """A record of a topic, until the receiver has it and has accepted it."""
    receiver = receiving(place.edge, "events/log", 100)
    (bridge,) = (each for each in gc.get_objects() if type(each).__name__ == "ClusterBridge")
    producer = Producer({"bootstrap.servers": bridge.bootstrap, "linger.ms": 0})
    for number in count():
        producer.produce("log", b"event %d" % number)
        producer.flush()
        event = receiver.until("transfer")
        receiver.disposition(event.delivery_id, "accepted", settled=True)
        yield


WALKS: Final[dict[str, Walk]] = {
    "request and response": request_and_response,
    "event in": event_in,
    "event out": event_out,
}


class Walked(NamedTuple):
    """The functions of the shortest walk of some messages; those that all of them passed; and whatever one of them
    passed, the end of its turn too."""

    shortest: list[str]
    always: set[str]
    ever: set[str]


def walked(place: Place, walk: Walk, recorder: Recorder) -> Walked:
    """The functions that messages passed, when others were before them."""
    steps = walk(place)
    for _ in range(WARM):
        next(steps)
        time.sleep(SETTLED)  # until what follows an outcome (credit, positions) is done: there is nothing to wait for
    found = [_followed(steps, recorder) for _ in range(FOLLOWED)]
    ways = [[name for name in way if walk is event_in or not name.startswith(BACKGROUND)] for way, _ in found]
    shortest = min(ways, key=len)  # without what happens once a second, such as a new token
    return Walked(shortest, set(shortest).intersection(*ways), set[str]().union(*(ever for _, ever in found)))


def _followed(steps: Iterator[None], recorder: Recorder) -> tuple[list[str], list[str]]:
    recorder.found.clear()
    recorder.on = True
    next(steps)
    way = list(recorder.found)
    time.sleep(SETTLED)
    recorder.on = False
    return way, list(recorder.found)


def lines(functions: list[str]) -> Iterator[str]:
    """The functions as docs/design.md has them: a line for each stay in a module."""
    for module, group in groupby(functions, lambda name: name.split(".")[: _depth(name)]):
        yield f"{'.'.join(module)}: " + ", ".join(name.removeprefix(".".join(module) + ".") for name in group)


def _depth(name: str) -> int:
    parts = name.split(".")
    return next(at for at in range(len(parts), 0, -1) if (ROOT / "/".join(parts[:at])).with_suffix(".py").is_file())


def record() -> dict[str, Walked]:
    """The walks of a gateway in this process, which ends with them: for the main thread of a process of its own."""
    recorder, (made, core), found = Recorder(), document(), dict[str, Walked]()
    place = Place(made.edge, core, cast(Gateway, None))

    def follow() -> None:
        try:
            wait_until(lambda: answers(made.edge) and answers(core), "the gateway accepts connections")
            found.update({name: walked(place, walk, recorder) for name, walk in WALKS.items()})
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.json"
        file.write_text(made.text)
        os.environ["SCOPEGATE_TEST_KEY"] = KEY
        threading.Thread(target=follow).start()
        threading.setprofile(recorder.heard)
        sys.setprofile(recorder.heard)
        with suppress(SystemExit):
            main(["run", str(file)])
        sys.setprofile(None)
    return found


if __name__ == "__main__":
    recorded = record()
    for title, (functions, always, ever) in recorded.items():
        print(f"{title}: {len(functions)}")
        print("\n".join(fill(line, 118, initial_indent="  ", subsequent_indent="    ") for line in lines(functions)))
        if "--ever" in sys.argv:
            print("\n".join(f"always {title}: {name}" for name in sorted(always)))
            print("\n".join(f"ever {title}: {name}" for name in sorted(ever)))
    sys.exit(len(recorded) < len(WALKS))
