"""The transforms of messages that enter another scope: annotate, rewrite or refuse them (RA 2.1 to 2.5).

The transform is decided once for a pair of links, at the first message, by the announcement of the target (ledger A30)
and the policy. For each message only a pure function runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from gateway.amqp.codec.codec import encode
from gateway.amqp.message._sections import unannotated_run
from gateway.amqp.message.hop import without
from gateway.amqp.message.response_support import annotated
from gateway.amqp.message.sections import SectionOffsets, map_entry, walk
from gateway.errors import NOT_ALLOWED, NOT_FOUND, AmqpError, Fault
from gateway.links.link_context import HasContext, LinkContext
from gateway.response.annotate import Annotator, LinkTarget, Restored
from gateway.response.annotations import REQUEST_ANNOTATIONS, RESPONSE_COOKIE
from gateway.response.cookies.cookie_store import CookieStore
from gateway.response.cookies.keys import KeyRing
from gateway.response.correlation_ids import CorrelationRestorer, CorrelationRewriter
from gateway.response.crossing import Crossing
from gateway.response.crossing_rule import (
    ANNOTATED,
    IN_CORRELATION_ID,
    REFUSED,
    RESPONSE,
    SAME_SCOPE,
    UNCHANGED,
    CrossingDecision,
    choose,
)
from gateway.response.rewrite import Rewriter
from gateway.routing.announcements import supports_annotations
from gateway.routing.cookie_offload import offloading
from gateway.routing.reserved import asks_me, own_address, with_own_address
from policies.reserved import replies_address

if TYPE_CHECKING:
    from gateway.links.link import MessageTarget, Transform
    from gateway.links.link_context import ReplyAddress
    from gateway.routing.announcements import ReceiverKind
    from gateway.routing.response_times import ResponseTimes
    from gateway.state.counters.store import CounterStore

_REMEMBERED: Final = 4096
"""Maximum number of reply addresses whose origin is remembered, so that not every scope is tried."""


class Right(Protocol):
    """The right of one requester to its reply-tos (`reply_rights`)."""

    @property
    def key(self) -> Hashable:
        """The same for all requesters with the same rights."""

    def __call__(self, address: str) -> bool:
        """As `gateway.response.permission.Permit`."""


class TransformRegistry:
    """The transforms between the scopes of one policy; `ring` None: there are no signing keys."""

    def __init__(
        self,
        ring: KeyRing | None,
        ttl_ms: int,
        scopes: Collection[str],
        clock: Callable[[], int],
        *,
        unrouted: Collection[str] = (),
        max_cookie: int | None = None,
        store: CounterStore | None = None,
        times: ResponseTimes | None = None,
    ) -> None:
        """`unrouted` are the scopes without response routing: nothing there is annotated.

        Cookies longer than `max_cookie` bytes are stored in `store`. `times` measures some requests.
        """
        self._times: Final = times
        self._answered: Final = _unmeasured if times is None else times.answered
        self._ring: Final = ring
        self._cookies: Final = None if ring is None else CookieStore(ring, None if store is None else max_cookie)
        self._store: Final = store
        self._unrouted: Final = unrouted
        self._ttl_ms: Final = ttl_ms
        self._scopes: Final = scopes
        self._clock: Final = clock
        self._annotators: dict[tuple[str, str, str | None, int | None, Hashable], Annotator] = {}
        self._carriers: dict[tuple[str, str, int | None, Hashable, bool], CorrelationRewriter] = {}
        self._restorers: dict[str, CorrelationRestorer] = {}
        self._targets: dict[str, LinkTarget] = {}
        self._origins: dict[tuple[str, str], Rewriter] = {}
        self.tokens: Final[dict[str, dict[bytes, str]]] = defaultdict(dict)
        """By scope: the tokens of encoded rewritten addresses that were verified there."""
        self._rewriters: dict[tuple[str, str, int | None, Hashable], Rewriter] = {}

    def routes(self, scope: str) -> bool:
        """Whether targets of this scope may announce that responses follow the annotations."""
        return self._ring is not None and scope not in self._unrouted

    def honours(self, scope: str, receiver: ReceiverKind) -> bool:
        """Whether such a receiver honours annotations on requests from `scope` (RA-2.2-4)."""
        if receiver.context.scope != scope:
            return receiver.context.replies != "none"
        return receiver.supports

    def choose(self, origin: HasContext, target: MessageTarget) -> CrossingDecision:
        """The decision on messages from `origin` to `target`."""
        origin_context, target_context = origin.context, target.context
        if origin_context.scope == target_context.scope:
            return SAME_SCOPE
        wanted = origin_context.replies if origin_context.replies != "auto" else target_context.replies
        reply_address = target_context.reply_address
        carries = reply_address is not None and reply_address.address is not None
        return choose(wanted, keys=self._ring is not None, capable=self._capable(target), carries=carries)

    def transform_for(self, origin: HasContext, target: MessageTarget, right: Right) -> Transform | None:
        """The transform of messages from `origin` to `target`; None: no change.

        `right` is that of their requester to its reply-tos.
        """
        origin_context, target_context = origin.context, target.context
        choice = self.choose(origin, target)
        if choice is SAME_SCOPE:
            return self._same_scope(origin_context, target_context, self._capable(target), right)
        if choice.result == UNCHANGED:
            cookie = () if origin_context.answer else (RESPONSE_COOKIE,)
            return Crossing(partial(without, names=(*REQUEST_ANNOTATIONS, *cookie)), unannotated_run)
        if choice.result == REFUSED:
            fault = Fault.GATEWAY if choice.condition == NOT_ALLOWED else Fault.PEER
            return _refuse(AmqpError(choice.condition or "", choice.why, fault=fault))
        if origin_context.uses is None and target_context.uses is not None and origin_context.replies != RESPONSE:
            origin_context = origin_context._replace(uses=target_context.uses)
        return self._enter(origin_context, target_context, choice.result, right)

    def _enter(self, origin_context: LinkContext, target_context: LinkContext, result: str, right: Right) -> Transform:
        """The transform of requests into another scope, by the result of the decision."""
        change = self._change(origin_context, target_context, result, right)
        if self._times is None or origin_context.answer:
            return change
        return self._times.timed(origin_context.scope, target_context.scope, change)

    def _change(self, origin_context: LinkContext, target_context: LinkContext, result: str, right: Right) -> Transform:
        if result == ANNOTATED:
            return self._annotating(origin_context, target_context.scope, right, target_context.reply_address)
        if result == IN_CORRELATION_ID:
            assert target_context.reply_address is not None
            return self._carrying(origin_context, target_context.scope, target_context.reply_address, right)
        return self._rewriting(origin_context, target_context.scope, right)

    def _capable(self, target: MessageTarget) -> bool:
        """Whether requests to this target are annotated."""
        return target.context.scope not in self._unrouted and supports_annotations(target)

    def _same_scope(self, origin: LinkContext, target: LinkContext, capable: bool, right: Right) -> Transform | None:
        """The transform within one scope, for `$me` and for annotations.

        Annotations are removed for a receiver without support, if the target announced support (RA-2.2-3).
        """
        if self._ring is None:
            return None
        if origin.pair is not None:
            carries = target.reply_address is not None and target.reply_address.address is not None
            choice = choose("auto", keys=True, capable=capable, carries=carries)
            change = self._enter(origin, target, choice.result, right)
            return lambda data: change(data) if asks_me(data) or (not capable and annotated(data)) else data
        if capable or not origin.announces:
            return None
        rewrite = self._rewriting(origin, origin.scope, right)
        return lambda data: rewrite(data) if annotated(data) else data

    def _annotating(
        self, origin: LinkContext, destination: str, right: Right, reply_address: ReplyAddress | None = None
    ) -> Transform:
        announced = None if reply_address is None else reply_address.address
        annotator = self._annotator((origin.scope, destination, announced, origin.uses, right.key))
        own = partial(own_address, origin.pair)
        return self._storing_cookies(annotator.crossing(self._clock, own, right, answer=origin.answer))

    def _rewriting(self, origin: LinkContext, destination: str, right: Right) -> Transform:
        rewriter = self._rewriter(origin.scope, destination, origin.uses, right.key)
        own = partial(own_address, origin.pair)
        return self._storing_cookies(rewriter.crossing(self._clock, own, right, answer=origin.answer))

    def _carrying(self, origin: LinkContext, destination: str, reply_address: ReplyAddress, right: Right) -> Transform:
        """Rewrite requests to a container that answers at its own address: the ids contain the reply address."""
        assert reply_address.address is not None
        ids = self._id_rewriter((origin.scope, destination, origin.uses, right.key, reply_address.correlation))
        clock, pair = self._clock, origin.pair
        reply_to, answer = encode(reply_address.address), origin.answer

        def crossing(data: bytes) -> bytes:
            own = with_own_address(data, pair) if asks_me(data) else data
            return ids.rewrite(own, clock(), reply_to=reply_to, answer=answer, permit=right)

        return self._storing_cookies(crossing)

    def _storing_cookies(self, crossing: Transform) -> Transform:
        """The transform, with long cookies stored first; unchanged without a limit."""
        if self._cookies is None or self._store is None:
            return crossing
        return offloading(crossing, self._cookies, self._store, self._clock)

    def _annotator(self, key: tuple[str, str, str | None, int | None, Hashable]) -> Annotator:
        """The annotator of all requesters with the same rights; what it caches is permitted to each of them."""
        origin, destination, announced, uses, _ = key
        if key not in self._annotators:
            assert self._ring is not None
            if len(self._annotators) >= _REMEMBERED:  # a connector's address changes with its connection
                self._annotators.clear()
            target = replies_address(destination)
            self._annotators[key] = Annotator(
                self._ring, origin, target, self._ttl_ms, announced=announced, uses=uses, store=self._cookies
            )
        return self._annotators[key]

    def _id_rewriter(self, key: tuple[str, str, int | None, Hashable, bool]) -> CorrelationRewriter:
        origin, destination, uses, _, correlation = key
        if key not in self._carriers:
            assert self._ring is not None
            if len(self._carriers) >= _REMEMBERED:
                self._carriers.clear()
            target = replies_address(destination)
            self._carriers[key] = CorrelationRewriter(
                self._ring,
                origin,
                destination,
                target,
                self._ttl_ms,
                uses=uses,
                correlation=correlation,
                store=self._cookies,
            )
        return self._carriers[key]

    def _rewriter(
        self, origin: str, destination: str, uses: int | None = None, right: Hashable = None
    ) -> Rewriter:
        """The rewriter of all requesters with the same rights; the one without rights restores responses."""
        key = (origin, destination, uses, right)
        if key not in self._rewriters:
            assert self._ring is not None
            if len(self._rewriters) >= _REMEMBERED:
                self._rewriters.clear()
            first = None if key == (origin, destination, None, None) else self._rewriter(origin, destination)
            self._rewriters[key] = Rewriter(
                self._ring,
                origin,
                replies_address(destination),
                self._ttl_ms,
                destination=destination,
                uses=uses,
                store=self._cookies,
                ids_of=first,
            )
        return self._rewriters[key]

    # -- responses

    def restore(self, scope: str, data: bytes) -> Restored:
        """Restore a response with a cookie that came to the reply address of `scope`."""
        return self._answered(scope, self._target(scope).restore(data, self._clock()))

    def own_cookie(self, scope: str, cookie: bytes) -> bool:
        """Whether a cookie is for the reply address of `scope` here, and not for another gateway's of the same name."""
        return self._target(scope).issued(cookie, self._clock())

    def _target(self, scope: str) -> LinkTarget:
        target = self._targets.get(scope)
        if target is None:
            if self._ring is None:
                raise AmqpError(NOT_FOUND, "no such response address")
            target = LinkTarget(self._ring, replies_address(scope), self._scopes, store=self._cookies)
            self._targets[scope] = target
        return target

    def restore_at_connector(self, scope: str, data: bytes) -> Restored:
        """Restore a response that came to a connector's address in `scope`, by its cookie or its correlation-id."""
        if self._ring is None:
            raise AmqpError(NOT_FOUND, "no such response address")
        layout = walk(data)
        if map_entry(data[layout.da : layout.ma], RESPONSE_COOKIE) is not None:
            return self.restore(scope, data)
        if scope not in self._restorers:
            self._restorers[scope] = CorrelationRestorer(
                self._ring, scope, replies_address(scope), self._scopes, store=self._cookies
            )
        return self._answered(scope, self._restorers[scope].restore(data, self._clock()))

    def undo(self, scope: str, token: str, data: bytes, layout: SectionOffsets | None = None) -> Restored:
        """Restore a response to a rewritten request that came to the address with `token` in `scope`."""
        return self._answered(scope, self._origin(scope, token).undo(token, data, self._clock(), layout))

    def check(self, scope: str, token: str) -> None:
        """Refuse an attach to a rewritten address that is forged or expired (RA-2.5-9)."""
        self._origin(scope, token).resolve(token, self._clock())

    def remember(self, scope: str, address: bytes, token: str) -> None:
        """Add the verified, encoded `address` to `tokens`."""
        known = self.tokens[scope]
        if len(known) >= _REMEMBERED:
            known.clear()
        known[address] = token

    def issued(self, scope: str, token: str) -> bool:
        """Whether this gateway issued the rewritten address with `token` in `scope`, expired or not."""
        try:
            self.check(scope, token)
        except AmqpError as error:
            return error.condition != NOT_FOUND
        return True

    def _origin(self, scope: str, token: str) -> Rewriter:
        """The rewriter that made `token`; it still checks the expiry at every use."""
        found = self._origins.get((scope, token))
        if found is None:
            if len(self._origins) >= _REMEMBERED:
                self._origins.clear()
            found = self._origins[scope, token] = self._find_origin(scope, token)
        return found

    def _find_origin(self, scope: str, token: str) -> Rewriter:
        """Try the rewriters into `scope`; all refuse a forged token with the same error."""
        refusal = AmqpError(NOT_FOUND, "there is no such response address")
        if self._ring is None:
            raise refusal
        for name in self._scopes:
            rewriter = self._rewriter(name, scope)
            try:
                rewriter.resolve(token, self._clock())
            except AmqpError as error:
                if error.condition != NOT_FOUND:
                    raise
                refusal = error
            else:
                return rewriter
        raise refusal


def _unmeasured(_: str, restored: Restored) -> Restored:
    return restored


def _refuse(error: AmqpError) -> Transform:
    def crossing(data: bytes) -> bytes:
        raise error

    return crossing
