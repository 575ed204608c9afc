"""Parses the JSON of a subscription, and reports all mistakes at once (CE 3.2.1 to 3.2.3). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bridges.cloudevents.model.members import InvalidMember, Members
from bridges.cloudevents.model.strict_json import json_text, read_object
from bridges.cloudevents.model.values import (
    InvalidSubscription,
    Json,
    Mistake,
    ProtocolSettings,
    SinkCredential,
    SinkProtocol,
    SinkUri,
)
from bridges.cloudevents.subscription import credential as credentials
from bridges.cloudevents.subscription.config import config
from bridges.cloudevents.subscription.delivery_request import delivery_request, effective
from bridges.cloudevents.subscription.document import realized
from bridges.cloudevents.subscription.event_filter import event_filter
from bridges.cloudevents.subscription.policy_check import policy_violations, proposal_violations
from bridges.cloudevents.subscription.settings.amqp import amqp_settings
from bridges.cloudevents.subscription.settings.http import http_settings
from bridges.cloudevents.subscription.settings.kafka import kafka_settings
from bridges.cloudevents.subscription.settings.mqtt import mqtt_settings
from bridges.cloudevents.subscription.settings.nats import nats_settings
from bridges.cloudevents.subscription.subscription import Subscription
from bridges.cloudevents.subscription.uri import sink_uri
from policies.model.filters import Filters
from policies.model.scopes.subscriptions import DeliverySection
from policies.subscriptions import ManagerRules

ALL_PROTOCOLS: Final = frozenset(SinkProtocol)
MAX_ID: Final = 255
MAX_MISTAKES: Final = 100
"""Maximum number of reported mistakes per object."""
_PLACE: Final = ("/sink", "/protocolsettings/topicname", "/protocolsettings/address")
"""The members that determine where the sink is."""
_HINTS: Final = {
    "sinkCredential": "unknown; did you mean sinkcredential?",
    "protocolSettings": "unknown; did you mean protocolsettings?",
}


@dataclass(frozen=True, slots=True)
class StoredSecrets:
    """The secrets of the stored subscription, which are valid for one origin of the sink."""

    origin: str = ""
    credential: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Proposal(NamedTuple):
    """The context of a proposed object."""

    owner: str
    id: str | None = None
    new_id: str = ""
    stored_secrets: StoredSecrets = StoredSecrets()


def parse(
    body: bytes,
    rules: ManagerRules,
    *,
    id: str | None = None,
    new_id: str = "",
    owner: str,
    now_ms: int,
    stored: Subscription | None = None,
    secrets: StoredSecrets | None = None,
    protocols: Collection[SinkProtocol] = ALL_PROTOCOLS,
) -> Subscription:
    """Parse the body of Create or Update; raises `InvalidSubscription` with every mistake.

    `id`: that in the URL of an update, which the object may repeat; `new_id` is used for an object without an id.
    `stored` is what an update replaces: if the origin of the sink is the same, omitted secrets keep their values.
    `secrets` are those of an import, for a subscription that is not stored here.
    `offered` are the protocols that this gateway has libraries for.
    """
    known = secrets or StoredSecrets()
    if stored is not None:
        kept = credentials.secrets_of(stored.credential)
        known = StoredSecrets(stored.sink.origin, kept, stored.secret_headers)
    value, mistakes = read_object(body), list[Mistake]()
    found = read_subscription(value, rules.filters, rules.delivery, Proposal(owner, id, new_id, known), mistakes)
    if found is not None and found.protocol not in protocols:
        mistakes.append(Mistake("/protocol", f"{found.protocol} is not offered by this gateway"))
    if found is not None:
        wrong = {mistake.field for mistake in mistakes}
        mistakes += policy_violations(found, rules, sink=wrong.isdisjoint(_PLACE))
        mistakes += (each for each in proposal_violations(found, rules, now_ms) if each.field not in wrong)
    if mistakes or found is None:
        raise InvalidSubscription(_bounded(mistakes))
    return found


def _bounded(mistakes: list[Mistake]) -> tuple[Mistake, ...]:
    """Remove duplicates and limit their number, so that an answer is not much longer than its request."""
    found = tuple(dict.fromkeys(mistakes))
    more = len(found) - MAX_MISTAKES
    return found if more <= 0 else (*found[:MAX_MISTAKES], Mistake("", f"and {more} more mistakes"))


def read_subscription(
    value: dict[str, Json], filters: Filters, delivery: DeliverySection, proposal: Proposal, mistakes: list[Mistake]
) -> Subscription | None:
    """The subscription in an object, without what only the policy and the time decide; None: too much is missing."""
    members = Members(value, "", mistakes)
    name = _id(members, proposal.id, proposal.new_id)
    protocol: SinkProtocol | None = members.require("protocol", _protocol, None)
    sink: SinkUri | None = members.require("sink", lambda given: sink_uri(given, protocol), None)
    known = (
        proposal.stored_secrets
        if sink is not None and sink.origin == proposal.stored_secrets.origin
        else StoredSecrets()
    )
    raw_settings = members.section("protocolsettings")
    settings = _settings(raw_settings, protocol, sink, known) if protocol is not None else None
    login = _credential(members, known, protocol)
    parsed = event_filter(members, mistakes, filters)
    part = members.section("config")
    wanted = config(part)
    part.finish()
    if settings is not None:
        request = delivery_request(raw_settings, protocol, settings.mode)
        raw_settings.finish()
    members.finish(_HINTS)
    if protocol is None or sink is None or settings is None:
        return None
    return Subscription(
        id=name,
        owner=proposal.owner,
        protocol=protocol,
        sink=sink,
        settings=settings,
        filter=parsed.filter,
        dialects=parsed.dialects,
        config=wanted,
        credential=login,
        delivery=effective(request, delivery),
        request=request,
        text=json_text(realized(value, name, settings)),
    )


def _id(members: Members, id: str | None, new_id: str) -> str:
    given: str | None = members.take("id", legal_id, None)
    if id is not None and given is not None and given != id:
        members.report("id", "another id than that of the URL; the id of a subscription does not change")
    if not (id or given or new_id or "id" in members):
        members.report("id", "required")
    return id or given or new_id


def legal_id(value: Json) -> str:
    """Check that a URL can contain the id; raises `InvalidMember`."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID:
        raise InvalidMember(f"text of 1 to {MAX_ID} characters")
    if value in (".", "..") or not value.isprintable() or set(value) & set("/\\"):
        raise InvalidMember("printable text without / and \\, and neither . nor ..")
    return value


def _protocol(value: Json) -> SinkProtocol:
    if isinstance(value, str) and value in SinkProtocol.__members__:
        return SinkProtocol(value)
    raise InvalidMember(f"one of {', '.join(SinkProtocol)}, in this spelling")


def _settings(members: Members, protocol: SinkProtocol, sink: SinkUri | None, known: StoredSecrets) -> ProtocolSettings:
    match protocol:
        case SinkProtocol.HTTP:
            return http_settings(members, known.headers)
        case SinkProtocol.AMQP:
            return amqp_settings(members, sink)
        case SinkProtocol.KAFKA:
            return kafka_settings(members)
        case SinkProtocol.NATS:
            return nats_settings(members)
        case SinkProtocol.MQTT3 | SinkProtocol.MQTT5:
            return mqtt_settings(members, protocol)


def _credential(members: Members, known: StoredSecrets, protocol: SinkProtocol | None) -> SinkCredential | None:
    part = members.section(credentials.MEMBER)
    if credentials.MEMBER not in members:
        return None
    found = credentials.credential(part, known.credential, protocol)
    if found is not None:
        part.finish()
    return found
