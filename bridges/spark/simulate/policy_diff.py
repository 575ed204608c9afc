"""Compares the decisions of two policies for one case (pure; docs/journal.md).

It uses the gateway's own functions: `ScopeRules.decide` for a link, `crossing_rule.choose` for messages that cross, and
`filter_set.read` for filters. Properties of the traffic, such as receivers that announced support for annotations, come
from the journal's crossing rows; if they are unknown, the verdict has both results.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from gateway.amqp.codec.codec import decode_all
from gateway.errors import CONNECTION_FORCED, NOT_ALLOWED, NOT_IMPLEMENTED, AmqpError
from gateway.filters.parse.filter_set import RULES, Rules, read
from gateway.journal.rows import LinkEnd, end_of
from gateway.response.crossing_rule import ANNOTATED, IN_CORRELATION_ID, REFUSED, REWRITTEN, UNCHANGED, choose
from policies.access import Grant
from policies.explain.explanation import decide_behind_relays, follow_relays
from policies.model.scopes.connect import ConnectorSection
from policies.rules import (
    INFO_SUFFIX,
    NOT_FOUND,
    CompiledPolicy,
    Decision,
    KafkaRoute,
    RedirectRoute,
    RelayRoute,
    Route,
    ServiceRoute,
)

ALLOW: Final = "allow"
DENY: Final = "deny"
UNKNOWN_FILTERS: Final = "filters not recorded"
DIFFERENCES: Final = {
    "denied": "was allowed, and would be denied",
    "allowed": "was denied, and would be allowed",
    "error": "is denied either way, with a different error",
    "routed": "would go elsewhere",
    "terms": "would go to the same place on other terms (mode, partitions, credit, uses, …)",
    "annotated": "requests would be annotated",
    "rewritten": "requests would be rewritten",
    "carried": "requests would be rewritten, with the return address in their ids (connect.replies)",
    "unchanged": "requests would cross unchanged, and no response would return through the gateway",
    "refused": "requests would be refused where they cross",
    "filtered": "its filters would be read differently",
    "filters-unknown": "its filters may be read differently: the journal does not have them (gateway.journal.filters)",
    "responses": "its responses would return where they did not, or the other way round",
}


class Case(NamedTuple):
    """A kind of link, or of message if `reply_to` is given; the user `None` is the gateway itself.

    `route` is for links without an address of the policy: temporary, anonymous, replies, pair.
    """

    scope: str
    user: str | None
    action: str
    address: str | None
    route: str = ""
    filters: tuple[str, ...] = ()
    filter_set: str | None = None
    reply_to: str | None = None


FilterReading: TypeAlias = tuple[object, ...]
"""A policy's reading of the filters of a link; equal readings select the same messages."""


class CaseVerdict(NamedTuple):
    """The decision of a policy for a case."""

    decision: str
    condition: str | None = None
    end: LinkEnd = LinkEnd()
    terms: tuple[Route, ...] = ()
    crossing: tuple[str, ...] = ()
    """The ways in which requests may cross; several if that depends on an unknown receiver."""
    filtered: FilterReading | None = None
    responses: str | None = None
    """For messages with a reply-to that cross: `home`, `nowhere`, or `refused` if a right is missing."""

    def __str__(self) -> str:
        if self.decision == DENY:
            return f"denied with {self.condition}"
        end = self.end
        places = {
            "scope": end.to_scope, "connector": end.to_connector, "cluster": end.to_cluster, "topic": end.to_topic,
            "address": None if end.route == "kafka" else end.to_address,
        }  # fmt: skip
        where = ", ".join(f"{name} {place}" for name, place in places.items() if place)
        crossing = f", {' or '.join(self.crossing)}" if self.crossing else ""
        lost = _LOST.get(self.responses or "", "")
        return f"{end.route}{f' ({where})' if where else ''}{crossing}{lost}"


class CaseReceiver(NamedTuple):
    """A receiver of requests, as identified in crossing rows."""

    scope: str
    address: str | None
    connector: str | None


class KnownReceivers(NamedTuple):
    """Receivers in crossing rows: whether they announced support, and whether the policy trusted their container."""

    announced: Mapping[CaseReceiver, frozenset[bool]]
    believed: Mapping[CaseReceiver, frozenset[bool]]


NOTHING: Final = KnownReceivers({}, {})
_LOST: Final = {"nowhere": ", responses nowhere", "refused": ", no right at its reply-to"}
_EITHER: Final = frozenset((False, True))


class PolicyEvaluator:
    """Evaluates cases under one policy, without its secrets."""

    def __init__(self, policy: CompiledPolicy, rules: Rules = RULES, known: KnownReceivers = NOTHING) -> None:
        """`rules` are those of the policy's filters (`gateway.config.policy.make_filter_rules`)."""
        self.policy: Final = policy
        self._rules: Final = rules
        self._known: Final = known
        self.verdict: Final = cache(self._verdict)

    def _verdict(self, case: Case) -> CaseVerdict:
        if case.scope not in self.policy.scopes:
            return CaseVerdict(DENY, CONNECTION_FORCED)
        if case.route in ("temporary", "anonymous", "replies", "pair"):
            return self._special(case)
        decision, routes = self._decide(case)
        if decision.condition is not None:
            return CaseVerdict(DENY, decision.condition)
        rule = self.policy.scopes[case.scope].rule((case.address or "").removesuffix(INFO_SUFFIX))
        end = end_of(case.scope, case.address or "", None if rule is None else rule.match.text, routes)
        filtered = self._filters(case)
        if isinstance(filtered, AmqpError):
            return CaseVerdict(DENY, filtered.condition, end._replace(rule=None))
        crossing = self._crossing(case, routes, end) if case.action == "send" and case.user is not None else ()
        responses = self._responses(case, crossing)
        return CaseVerdict(ALLOW, None, end._replace(rule=None), routes, crossing, filtered, responses)

    def _special(self, case: Case) -> CaseVerdict:
        """Links without an address rule."""
        scope = self.policy.model.scopes[case.scope]
        if case.route == "anonymous" and not scope.anonymous_relay:
            return CaseVerdict(DENY, NOT_IMPLEMENTED)
        if case.route == "temporary" and case.address is None and not scope.temporary:
            return CaseVerdict(DENY, NOT_ALLOWED)
        if case.route == "pair" and case.address is not None:
            decision = self._decide(case._replace(action="send"))[0]
            if decision.condition is not None:
                return CaseVerdict(DENY, decision.condition)
        return CaseVerdict(ALLOW, None, LinkEnd(case.route))

    def _decide(self, case: Case) -> tuple[Decision, tuple[Route, ...]]:
        rules, address = self.policy.scopes[case.scope], case.address or ""
        if case.user is not None:
            decision = rules.decide(case.user, case.action, address)  # type: ignore[arg-type]  # send or receive
        else:  # the gateway itself needs no access rule and is not redirected
            route = rules.route(address)
            lost = route is None or isinstance(route, RedirectRoute)
            decision = Decision(route, Grant(True), False, NOT_FOUND if lost else None)
        hops = follow_relays(self.policy, decision.route)
        decision = decide_behind_relays(decision, hops)
        if decision.condition is not None or decision.route is None:
            return decision, ()
        return decision, (decision.route, *(route for _, route in hops if route is not None))

    # -- crossing messages

    def _crossing(self, case: Case, routes: tuple[Route, ...], end: LinkEnd) -> tuple[str, ...]:
        if end.to_scope is None or end.to_scope == case.scope:
            return ()
        first, last = routes[0], routes[-1]
        replies = first.replies if isinstance(first, RelayRoute) else "auto"
        model = self.policy.model
        options = {False} if not model.scopes[end.to_scope].response_routing else self._capable(replies, last, end)
        connector = self._connector(end)
        carries = connector is not None and connector.replies.address != "gateway"
        keys = model.keys is not None
        choices = {choose(replies, keys=keys, capable=each, carries=carries).result for each in options}
        return tuple(sorted(choices))

    def _capable(self, replies: str, last: Route, end: LinkEnd) -> Iterable[bool]:
        """Whether the receiver of the requests supports annotations: both values if unknown."""
        if isinstance(last, KafkaRoute):
            return {replies == "cookie"}
        if isinstance(last, ServiceRoute):
            return {True}
        receiver = CaseReceiver(end.to_scope or "", end.to_address, end.to_connector)
        announced = self._known.announced.get(receiver, _EITHER)
        seen = self._known.believed.get(receiver, _EITHER)
        counts = {"trust": {True}, "never": {False}, "offered": seen}
        believed = {one for mode in self._annotations(end) for one in counts[mode]}
        return {one and other for one, other in product(announced, believed)}

    def _annotations(self, end: LinkEnd) -> Iterable[str]:
        """The policy's settings for the connections on which the receiver may be attached."""
        if (connector := self._connector(end)) is not None:
            return {connector.annotations}
        listeners = self.policy.model.scopes[end.to_scope or ""].listen
        return {listener.annotations for listener in listeners} or {"offered"}

    def _connector(self, end: LinkEnd) -> ConnectorSection | None:
        if end.to_connector is None or end.to_scope is None:
            return None
        return next(each for each in self.policy.model.scopes[end.to_scope].connect if each.name == end.to_connector)

    def _responses(self, case: Case, crossing: tuple[str, ...]) -> str | None:
        """Whether the response to this message reaches its reply-to."""
        routed = not {ANNOTATED, REWRITTEN, IN_CORRELATION_ID}.isdisjoint(crossing)
        if case.reply_to is None or case.reply_to == "$me" or not routed:
            return None
        if case.reply_to.startswith(("$temp/", "$replies.")):
            return "home"
        if case.user is not None and not self.policy.scopes[case.scope].may_be_answered_at(case.user, case.reply_to):
            return "refused"
        back = Case(case.scope, None, "send", case.reply_to)
        return "home" if self._decide(back)[0].condition is None else "nowhere"

    # -- filters

    def _filters(self, case: Case) -> FilterReading | AmqpError | None:
        """The reading of the filters, or the error that refuses them."""
        if not case.filters:
            return None
        if case.filter_set is None:
            return UNKNOWN_FILTERS, self._rules
        try:
            asked = decode_all(base64.b64decode(case.filter_set, validate=True))
        except (AmqpError, binascii.Error, ValueError):
            return UNKNOWN_FILTERS, self._rules
        try:
            found = read(asked if isinstance(asked, dict) else {}, self._rules)
        except AmqpError as error:
            return error
        return repr(found.predicate), repr(found.position), found.left_out


def differences(before: CaseVerdict, after: CaseVerdict) -> tuple[str, ...]:
    """The differences, as keys of `DIFFERENCES`; empty if there are none."""
    return tuple(_differences(before, after))


def _differences(before: CaseVerdict, after: CaseVerdict) -> Iterator[str]:
    if before.decision != after.decision:
        yield "denied" if after.decision == DENY else "allowed"
        return
    if after.decision == DENY:
        if before.condition != after.condition:
            yield "error"
        return
    if before.end._replace(replies=None) != after.end._replace(replies=None):
        yield "routed"
    elif before.terms != after.terms and before.crossing == after.crossing:
        yield "terms"
    if after.crossing != before.crossing:
        new = set(after.crossing) - set(before.crossing)
        yield from sorted(new or after.crossing, key=_ORDER.index)
    if before.filtered != after.filtered:
        unknown = UNKNOWN_FILTERS in (*(after.filtered or ()), *(before.filtered or ()))
        yield "filters-unknown" if unknown else "filtered"
    if before.responses != after.responses and _LOST.keys() & {before.responses, after.responses}:
        yield "responses"


_ORDER: Final = (ANNOTATED, REWRITTEN, IN_CORRELATION_ID, UNCHANGED, REFUSED)


class PolicyDifference(NamedTuple):
    """A case under both policies."""

    case: Case
    before: CaseVerdict
    after: CaseVerdict
    differences: tuple[str, ...]


def compare(before: PolicyEvaluator, after: PolicyEvaluator, cases: Iterable[Case]) -> list[PolicyDifference]:
    """Evaluate every case under both policies."""
    found = []
    for case in cases:
        now, then = before.verdict(case), after.verdict(case)
        found.append(PolicyDifference(case, now, then, differences(now, then)))
    return found
