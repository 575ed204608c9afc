"""Links whose responses may have to wait before they go home: for what their cookie stands for, for their turn
(`response_rate`), for a use that is left (`replies: {uses}`).

Most wait for nothing and take the way of any routed message. A response that waits keeps the credit it came with, so
that no more wait than a link has credit for; whatever shared state does, each wait ends with an outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.amqp.link.outcomes import RELEASED, Modified, Outcome
from gateway.amqp.message.hop import TARGETED
from gateway.errors import AmqpError
from gateway.instance import instance
from gateway.nodes.link import Delivery, IncomingLink
from gateway.response.cookie import Cookie
from gateway.response.cookie_store import CookieNotLoaded, Refusal
from gateway.response.keys import BadToken
from gateway.response.rate_limit import Bucket
from gateway.routing.fair_share import FairShare, Timer
from gateway.routing.message_router import (
    WINDOW,
    Destination,
    DestinationLink,
    MessageRouter,
    PendingDestination,
    RequiredCapabilities,
)
from gateway.routing.requester_limits import BESIDE, DETACHED
from gateway.state.counters.store import CounterStore

PATIENCE: Final = 10.0
"""Seconds a response may wait for its turn; one that would wait longer is released."""
OUTLIVES: Final = 300_000
"""Milliseconds that counts and kept cookies outlive their expiry: as far as clocks of gateways may differ."""


class AdmissionContext(NamedTuple):
    """What waiting needs: shared state, the wall clock for expiries, and the loop's time."""

    store: CounterStore
    now_ms: Callable[[], int]
    time: Callable[[], float]
    later: Callable[[float, Callable[[], None]], Timer]


class AdmissionRequired(PendingDestination):
    """A response that has more to pass: a turn in `bucket`, and a use where its `cookie` limits them."""

    def __init__(self, destination: Destination, bucket: Bucket | None, cookie: Cookie, refuse: Refusal) -> None:
        super().__init__()
        self.destination: Final = destination
        self.bucket: Final = bucket
        self.cookie: Final = cookie
        self.refuse: Final = refuse


class UseClaim(NamedTuple):
    """A use that a response has taken."""

    key: str
    name: str


_claims: Final = count()


def remaining(expiry_ms: int, now_ms: int) -> int:
    """How long shared state has to hold what is valid until `expiry_ms`."""
    return max(expiry_ms - now_ms, 0) + OUTLIVES


class UseLimitedRoute(DestinationLink):
    """A route for responses whose uses are counted: what is not delivered gives its use back.

    It is not when it was released or modified, or never left the gateway.
    """

    def __init__(self, router: ResponseRouter, link: IncomingLink, key: tuple[str, str, str]) -> None:
        super().__init__(router, link, key)
        self._store: Final = router.waits.store
        self._claims: dict[Any, UseClaim] = {}
        self._refusing = False

    def counted(self, delivery: Delivery, claim: UseClaim) -> None:
        """Remember what was taken for a delivery that comes now."""
        self._claims[delivery] = claim

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if self._refusing or outcome is RELEASED or isinstance(outcome, Modified):
            self._free(delivery)
        self._refusing = False
        self._claims.pop(delivery, None)
        super().settle(delivery, outcome)

    def drop(self, delivery: Delivery) -> None:
        self._free(delivery)
        super().drop(delivery)

    def message_refused(self, error: AmqpError) -> None:
        """The node refuses a delivery and will settle it now; nobody has got it."""
        self._refusing = True
        super().message_refused(error)

    def abandon(self, delivery: Delivery, settled: bool) -> None:
        self._free(delivery)
        super().abandon(delivery, settled)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """What waits is answered by nobody."""
        self._free_waiting()
        super().ended(error, was_open=was_open)

    def _free_waiting(self) -> None:
        for delivery, *_ in self._waiting:
            self._free(delivery)

    def _free(self, delivery: Delivery) -> None:
        if (claim := self._claims.pop(delivery, None)) is not None:
            self._store.release(*claim)


class Pending:
    """A response that waits; `charged` is what it takes of `DETACHED` once its link has ended."""

    __slots__ = ("charged", "delivery", "settled", "size")

    def __init__(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.delivery, self.settled, self.size = delivery, settled, len(data) + BESIDE
        self.charged = 0


class ResponseRouter(MessageRouter):
    """The handler of a link on which responses may come; those that came settled outlive it."""

    outlived = True

    def __init__(
        self,
        link: IncomingLink,
        destination_of: Callable[[IncomingLink, bytes], Destination],
        waits: AdmissionContext,
        demands: RequiredCapabilities = RequiredCapabilities(),  # noqa: B008  immutable
        window: int = WINDOW,
    ) -> None:
        super().__init__(link, destination_of, demands)
        self.waits: Final = waits
        self.window: Final = window
        self._lot: Final = max(window // 4, 1)
        self._held: deque[tuple[float, AdmissionRequired, Pending]] = deque()
        self._pending: dict[Pending, None] = {}
        self._timer: Timer | None = None
        self._shares: Final = FairShare(link, window, self._routes.values, waits.later, waits.now_ms)

    def start(self, capabilities: tuple[str, ...] = (), properties: Mapping[Any, Any] | None = None) -> None:
        """Accept the link."""
        size = self.link.engine.config.max_message_size
        self.link.accept(
            self, max_message_size=size, capabilities=capabilities, properties=properties, understands=TARGETED
        )
        self.link.grant(self.window)

    def busy(self) -> None:
        self._shares.watch()

    def opened(self, route: DestinationLink) -> None:
        self._shares.opened(route)

    def passed(self) -> None:
        if self._shares.due:
            self._shares.pay_back()
            return
        self._owed += 1
        if self._owed >= self._lot or not self.link.granted:
            self.link.grant(self._owed)
            self._owed = 0

    def wait(self, wait: PendingDestination | CookieNotLoaded, delivery: Delivery, data: bytes, settled: bool) -> None:
        """The aim says that this response cannot go on yet."""
        if isinstance(wait, AdmissionRequired):
            self._admit(wait, delivery, settled)
        elif isinstance(wait, CookieNotLoaded):
            self._fetch(wait, delivery, data, settled)
        else:
            raise wait

    def give_back(self) -> None:
        """What waits for its turn goes back, too."""
        held, self._held = self._held, deque()
        for _, _, pending in held:
            self._resume(pending)
            self._release(pending.delivery, pending.settled)
        super().give_back()

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        for pending in list(self._pending):
            self._leave(pending)
        self._held = deque(item for item in self._held if item[2] in self._pending)
        if not self._routes and not self._pending:
            self._shares.stop()

    # -- what waits

    def _wait(self, delivery: Delivery, data: bytes, settled: bool) -> Pending:
        pending = Pending(delivery, data, settled)
        self._pending[pending] = None
        if self.ended:
            self._leave(pending)
        return pending

    def _resume(self, pending: Pending) -> bool:
        """It waits no more; False: it was given up when the link ended."""
        DETACHED.give_back(pending.charged)
        return self._pending.pop(pending, self) is None

    def _leave(self, pending: Pending) -> None:
        """The link has ended: nobody could send again what came settled."""
        if pending.settled and DETACHED.take(pending.size):
            pending.charged = pending.size
            return
        del self._pending[pending]
        if pending.settled:
            self.link.drop(pending.delivery)

    # -- what the cookie stands for

    def _fetch(self, missing: CookieNotLoaded, delivery: Delivery, data: bytes, settled: bool) -> None:
        pending = self._wait(delivery, data, settled)

        def got(value: bytes | None) -> None:
            if not self._resume(pending):
                return
            if value is None:
                self._release(delivery, settled)
                return
            try:
                missing.load(value, self.waits.now_ms())
            except BadToken as fault:
                self._turn_away(missing.refuse, fault, delivery, settled)
            else:
                self.on_transfer(delivery, data, settled)
                self._settle_down()

        self.waits.store.get(missing.key, got)

    def _settle_down(self) -> None:
        """After the link has ended: destinations with nothing to wait for go."""
        if self.ended:
            for route in list(self._routes.values()):
                route.perhaps_done()

    # -- its turn

    def _admit(self, toll: AdmissionRequired, delivery: Delivery, settled: bool) -> None:
        if toll.bucket is None:
            self._count(toll, delivery, settled)
            return
        now = self.waits.time()
        wait = toll.bucket.reserve(now, PATIENCE) if len(self._held) < WINDOW else None
        if wait is None:
            self._release(delivery, settled)
        elif wait == 0 and not self._held:
            self._count(toll, delivery, settled)
        else:
            self._held.append((now + wait, toll, self._wait(delivery, toll.destination.data, settled)))
            if self._timer is None:
                self._timer = self.waits.later(wait, self._turn)

    def _turn(self) -> None:
        """Let go whose time has come, in the order in which they came."""
        self._timer, held, now = None, self._held, self.waits.time()
        while held and held[0][0] <= now:
            _, toll, pending = held.popleft()
            self._resume(pending)
            self._count(toll, pending.delivery, pending.settled)
        if held and self._timer is None:
            self._timer = self.waits.later(held[0][0] - now, self._turn)

    # -- its use

    def _count(self, toll: AdmissionRequired, delivery: Delivery, settled: bool) -> None:
        uses = toll.cookie.uses
        if uses is None:
            self._forward(toll.destination, delivery, settled)
            return
        claim = UseClaim(f"uses:{uses.nonce.hex()}", f"{instance()}-{next(_claims)}")
        pending = self._wait(delivery, toll.destination.data, settled)

        def counted(taken: bool | None) -> None:
            if not self._resume(pending):
                if taken:
                    self.waits.store.release(*claim)
            elif taken:
                self._forward(toll.destination, delivery, settled, claim)
            elif taken is None:
                self._release(delivery, settled)
            else:
                self._turn_away(toll.refuse, BadToken("used up"), delivery, settled)

        ttl_ms = remaining(toll.cookie.expiry_ms, self.waits.now_ms())
        self.waits.store.acquire(*claim, uses.limit, ttl_ms, counted)

    def _forward(
        self, destination: Destination, delivery: Delivery, settled: bool, claim: UseClaim | None = None
    ) -> None:
        try:
            route = self._routes.get(destination.key) or (
                self._open(destination, DestinationLink if claim is None else UseLimitedRoute)
            )
        except AmqpError as error:
            if claim is not None:
                self.waits.store.release(*claim)
            self.unreachable(delivery, error, settled, answer=True)
            return
        if claim is not None:
            assert isinstance(route, UseLimitedRoute)
            route.counted(delivery, claim)
        route.transfer(delivery, destination.data, settled, destination.until_ms)
        route.perhaps_done()

    # -- none of it

    def _turn_away(self, refuse: Refusal, fault: BadToken, delivery: Delivery, settled: bool) -> None:
        error = refuse(fault)
        error.__cause__ = fault  # for the log and the counter; the peer hears what any bad cookie hears
        self.refuse(delivery, error, settled)

    def _release(self, delivery: Delivery, settled: bool) -> None:
        """Certainly not delivered; the responder may send it again."""
        if settled:
            self.link.drop(delivery)
        else:
            self.link.settle(delivery, RELEASED)
        self.passed()
