"""Links whose responses may have to wait: for their stored cookie, the rate limit (`response_rate`), or a use
(`replies: {uses}`).

Most responses do not wait and are routed like any message. A waiting response holds its credit, so that no more wait
than the link has credit for. Every wait ends with an outcome, even if shared state fails.
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
from gateway.links.link import Delivery, IncomingLink
from gateway.response.cookies.cookie import Cookie
from gateway.response.cookies.cookie_store import CookieNotLoaded, Refusal
from gateway.response.cookies.keys import BadToken
from gateway.response.rate_limit import Bucket
from gateway.routing.announcements import RequiredCapabilities
from gateway.routing.destination_link import Destination, DestinationLink, PendingDestination
from gateway.routing.fair_share import FairShare, Timer
from gateway.routing.message_router import WINDOW, MessageRouter
from gateway.routing.requester_limits import BESIDE, DETACHED
from gateway.state.counters.store import CounterStore
from policies.model.keys import LONGEST_SKEW

MAX_WAIT: Final = 10.0
"""Seconds that a response may wait for the rate limit; one that would wait longer is released."""
OUTLIVES: Final = LONGEST_SKEW + 300_000
"""Milliseconds that counts and stored cookies outlive their expiry: `keys.skew`, and what clocks of gateways differ."""


class AdmissionContext(NamedTuple):
    """What waiting needs: shared state, the wall clock for expiries, and timers of the event loop."""

    store: CounterStore
    now_ms: Callable[[], int]
    time: Callable[[], float]
    later: Callable[[float, Callable[[], None]], Timer]


class AdmissionRequired(PendingDestination):
    """A response that needs a turn in `bucket`, or one of the uses that its `cookie` limits."""

    def __init__(self, destination: Destination, bucket: Bucket | None, cookie: Cookie, refuse: Refusal) -> None:
        super().__init__()
        self.destination: Final = destination
        self.bucket: Final = bucket
        self.cookie: Final = cookie
        self.refuse: Final = refuse


class UseClaim(NamedTuple):
    """A use that a response has acquired."""

    key: str
    name: str


_claims: Final = count()


def remaining(expiry_ms: int, now_ms: int) -> int:
    """How long shared state has to store what is valid until `expiry_ms`."""
    return max(expiry_ms - now_ms, 0) + OUTLIVES


class UseLimitedRoute(DestinationLink):
    """A route for responses whose uses are counted: a response that is not delivered returns its use.

    That is one that was released or modified, or never left the gateway.
    """

    def __init__(self, router: ResponseRouter, link: IncomingLink, key: tuple[str, str, str]) -> None:
        super().__init__(router, link, key)
        self._store: Final = router.waits.store
        self._claims: dict[Any, UseClaim] = {}
        self._refusing = False

    def counted(self, delivery: Delivery, claim: UseClaim) -> None:
        """Remember the use of the next delivery."""
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
        """The node refuses a delivery, and settles it next."""
        self._refusing = True
        super().message_refused(error)

    def abandon(self, delivery: Delivery, settled: bool) -> None:
        self._free(delivery)
        super().abandon(delivery, settled)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """Return the uses of waiting responses."""
        self._free_waiting()
        super().ended(error, was_open=was_open)

    def _free_waiting(self) -> None:
        for delivery, *_ in self._waiting:
            self._free(delivery)

    def _free(self, delivery: Delivery) -> None:
        if (claim := self._claims.pop(delivery, None)) is not None:
            self._store.release(*claim)


class Pending:
    """A waiting response; `charged`: its bytes in `DETACHED` once its link has ended."""

    __slots__ = ("charged", "delivery", "settled", "size")

    def __init__(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.delivery, self.settled, self.size = delivery, settled, len(data) + BESIDE
        self.charged = 0


class ResponseRouter(MessageRouter):
    """The handler of a link for responses; settled responses outlive it."""

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
        """Let a response wait."""
        if isinstance(wait, AdmissionRequired):
            self._admit(wait, delivery, settled)
        elif isinstance(wait, CookieNotLoaded):
            self._fetch(wait, delivery, data, settled)
        else:
            raise wait

    def give_back(self) -> None:
        """Release responses that wait for the rate limit, too."""
        held, self._held = self._held, deque()
        for _, _, pending in held:
            self._resume(pending)
            self.release(pending.delivery, pending.settled)
        super().give_back()

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        for pending in list(self._pending):
            self._leave(pending)
        self._held = deque(item for item in self._held if item[2] in self._pending)
        if not self._routes and not self._pending:
            self._shares.stop()

    # -- waiting responses

    def _wait(self, delivery: Delivery, data: bytes, settled: bool) -> Pending:
        pending = Pending(delivery, data, settled)
        self._pending[pending] = None
        if self.ended:
            self._leave(pending)
        return pending

    def _resume(self, pending: Pending) -> bool:
        """Stop waiting; False: the response was given up when the link ended."""
        DETACHED.give_back(pending.charged)
        return self._pending.pop(pending, self) is None

    def _leave(self, pending: Pending) -> None:
        """The link has ended: settled responses wait on, because their sender cannot send them again."""
        if pending.settled and DETACHED.take(pending.size):
            pending.charged = pending.size
            return
        del self._pending[pending]
        if pending.settled:
            self.link.drop(pending.delivery)

    # -- stored cookies

    def _fetch(self, missing: CookieNotLoaded, delivery: Delivery, data: bytes, settled: bool) -> None:
        pending = self._wait(delivery, data, settled)

        def got(value: bytes | None) -> None:
            if not self._resume(pending):
                return
            if value is None:
                self.release(delivery, settled)
                return
            try:
                missing.load(value, self.waits.now_ms())
            except BadToken as fault:
                self._reject(missing.refuse, fault, delivery, settled)
            else:
                self.on_transfer(delivery, data, settled)
                self._settle_down()

        self.waits.store.get(missing.key, got)

    def _settle_down(self) -> None:
        """After the link has ended: close destinations without waiting messages."""
        if self.ended:
            for route in list(self._routes.values()):
                route.perhaps_done()

    # -- the rate limit

    def _admit(self, admission: AdmissionRequired, delivery: Delivery, settled: bool) -> None:
        if admission.bucket is None:
            self._count(admission, delivery, settled)
            return
        now = self.waits.time()
        wait = admission.bucket.reserve(now, MAX_WAIT) if len(self._held) < WINDOW else None
        if wait is None:
            self.release(delivery, settled)
        elif wait == 0 and not self._held:
            self._count(admission, delivery, settled)
        else:
            self._held.append((now + wait, admission, self._wait(delivery, admission.destination.data, settled)))
            if self._timer is None:
                self._timer = self.waits.later(wait, self._turn)

    def _turn(self) -> None:
        """Forward responses whose turn has come, in order."""
        self._timer, held, now = None, self._held, self.waits.time()
        while held and held[0][0] <= now:
            _, admission, pending = held.popleft()
            self._resume(pending)
            self._count(admission, pending.delivery, pending.settled)
        if held and self._timer is None:
            self._timer = self.waits.later(held[0][0] - now, self._turn)

    # -- uses

    def _count(self, admission: AdmissionRequired, delivery: Delivery, settled: bool) -> None:
        uses = admission.cookie.uses
        if uses is None:
            self._forward(admission.destination, delivery, settled)
            return
        claim = UseClaim(f"uses:{uses.nonce.hex()}", f"{instance()}-{next(_claims)}")
        pending = self._wait(delivery, admission.destination.data, settled)

        def counted(taken: bool | None) -> None:
            if not self._resume(pending):
                if taken:
                    self.waits.store.release(*claim)
            elif taken:
                self._forward(admission.destination, delivery, settled, claim)
            elif taken is None:
                self.release(delivery, settled)
            else:
                self._reject(admission.refuse, BadToken("used up"), delivery, settled)

        ttl_ms = remaining(admission.cookie.expiry_ms, self.waits.now_ms())
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

    # -- refusals

    def _reject(self, refuse: Refusal, fault: BadToken, delivery: Delivery, settled: bool) -> None:
        error = refuse(fault)
        error.__cause__ = fault  # for log and counters; the peer gets the same error as for any invalid cookie
        self.refuse(delivery, error, settled)
