"""The parts of a policy file that are valid by themselves, for the checks across parts.

Each part is validated alone. Invalid keys are removed (validation of the whole model reports them) and remembered. A
check calls `ok(…)` with the keys that it needs, so one mistake causes one message and hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from policies.model.gateway import GatewaySection
from policies.model.kafka import KafkaCluster, Setting
from policies.model.keys import KeyEntry
from policies.model.pipeline import PipelineSection
from policies.model.scopes.access import AccessRule
from policies.model.scopes.addresses import AnyAddressRule, rule_kind
from policies.model.scopes.api import ApiSection
from policies.model.scopes.bridge import BridgeEntry
from policies.model.scopes.connect import ConnectorSection
from policies.model.scopes.listen import ListenerSection
from policies.model.scopes.subscriptions import SubscriptionManagerEntry
from policies.parts.messages import file_loc
from policies.schema import allowed_keys, nearest
from policies.text.diagnostics import Loc
from policies.text.tree import Plain
from policies.values.base import Secret
from policies.values.pattern_index import PatternIndex

M = TypeVar("M")
Validate = Callable[[object], M]
"""Returns the part that a value of the file is; raises ValidationError."""

_WHEN_USED: Final = ConfigDict(defer_build=True)
_TEXT: Final = TypeAdapter(str, config=_WHEN_USED)
_SETTING: TypeAdapter[Secret | str] = TypeAdapter(Setting, config=_WHEN_USED)

# Values for required keys that have a mistake; they are in `broken`, so no check uses them.
_PLACEHOLDERS: Final = {
    "match": "**", "name": "x", "to": "amqps://x", "redirect": "amqps://x", "may": "info", "events": "x"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PolicyPart(Generic[M]):
    """A valid part and its place; `broken` are the keys that were removed because of a mistake."""

    loc: Loc
    value: M
    broken: frozenset[str] = frozenset()

    def ok(self, *keys: str) -> bool:
        """Whether these keys still have their values from the file."""
        return self.broken.isdisjoint(keys)


@dataclass(frozen=True, slots=True)
class ScopeParts:
    """The valid parts of one scope."""

    name: str
    listen: tuple[PolicyPart[ListenerSection], ...]
    connect: tuple[PolicyPart[ConnectorSection], ...]
    addresses: tuple[PolicyPart[AnyAddressRule], ...]
    rules: PatternIndex
    """The valid patterns of `addresses`, with their positions in it."""
    broken_rules: bool
    """Whether an entry of `addresses` has a pattern with a mistake."""
    access: tuple[PolicyPart[AccessRule], ...]
    bridge: tuple[PolicyPart[BridgeEntry], ...]
    api: tuple[PolicyPart[ApiSection], ...]
    subscriptions: tuple[PolicyPart[SubscriptionManagerEntry], ...]
    connector_names: frozenset[str]
    manager_names: frozenset[str]
    grants: bool
    broken_access: bool
    """Whether an entry of `access` was left out, or lost keys, because of a mistake."""

    @property
    def loc(self) -> Loc:
        """The place of the scope."""
        return ("scopes", self.name)


@dataclass(frozen=True, slots=True)
class PolicyParts:
    """The valid parts of a policy file, and every name that it defines."""

    gateway: PolicyPart[GatewaySection] | None
    active: PolicyPart[str] | None
    ring: tuple[PolicyPart[KeyEntry], ...]
    has_keys: bool
    max_cookie: bool
    key_names: frozenset[str]
    kafka: tuple[PolicyPart[KafkaCluster], ...]
    settings: tuple[PolicyPart[Secret | str], ...]
    cluster_names: frozenset[str]
    pipeline: PolicyPart[PipelineSection] | None
    scopes: tuple[ScopeParts, ...]
    scope_names: frozenset[str]


def policy_parts(data: Plain) -> PolicyParts:
    """Split a file into its parts; anything may be missing or of the wrong type."""
    root, keys = _dict(data), _dict(_dict(data).get("keys"))
    clusters, scopes = _dict(root.get("kafka")), _dict(root.get("scopes"))
    return PolicyParts(
        gateway=_part(GatewaySection.model_validate, root.get("gateway"), ("gateway",)),
        active=_part(_TEXT.validate_python, keys.get("active"), ("keys", "active")),
        ring=tuple(_parts(KeyEntry.model_validate, _dict(keys.get("ring")).items(), ("keys", "ring"))),
        has_keys=root.get("keys") is not None,
        max_cookie=keys.get("max_cookie") is not None,
        key_names=frozenset(_dict(keys.get("ring"))),
        kafka=tuple(_parts(KafkaCluster.model_validate, clusters.items(), ("kafka",))),
        settings=tuple(_settings(clusters)),
        cluster_names=frozenset(clusters),
        pipeline=_part(PipelineSection.model_validate, root["pipeline"], ("pipeline",)) if "pipeline" in root else None,
        scopes=tuple(_scope(name, _dict(value)) for name, value in scopes.items()),
        scope_names=frozenset(scopes),
    )


def _scope(name: str, raw: dict[str, Plain]) -> ScopeParts:
    loc: Loc = ("scopes", name)
    keys = ("listen", "connect", "addresses", "access", "bridge", "api", "subscriptions")
    lists = {key: list(enumerate(_list(raw.get(key)))) for key in keys}
    addresses = tuple(_rules(lists["addresses"], (*loc, "addresses")))
    access = tuple(_parts(AccessRule.model_validate, lists["access"], (*loc, "access")))
    return ScopeParts(
        name=name,
        listen=tuple(_parts(ListenerSection.model_validate, lists["listen"], (*loc, "listen"))),
        connect=tuple(_parts(ConnectorSection.model_validate, lists["connect"], (*loc, "connect"))),
        addresses=addresses,
        rules=PatternIndex((at, rule.value.match) for at, rule in enumerate(addresses) if rule.ok("match")),
        broken_rules=not all(rule.ok("match") for rule in addresses),
        access=access,
        bridge=tuple(_parts(BridgeEntry.model_validate, lists["bridge"], (*loc, "bridge"))),
        api=tuple(_parts(ApiSection.model_validate, lists["api"], (*loc, "api"))),
        subscriptions=tuple(
            _parts(SubscriptionManagerEntry.model_validate, lists["subscriptions"], (*loc, "subscriptions"))
        ),
        connector_names=_names(lists["connect"]),
        manager_names=_names(lists["subscriptions"]),
        grants=bool(lists["access"]),
        broken_access=len(access) < len(lists["access"]) or any(entry.broken for entry in access),
    )


def _names(items: Iterable[tuple[int, Plain]]) -> frozenset[str]:
    names = (_dict(item).get("name") for _, item in items)
    return frozenset(name for name in names if isinstance(name, str))


def _parts(validate: Validate[M], items: Iterable[tuple[str | int, Plain]], loc: Loc) -> Iterator[PolicyPart[M]]:
    for key, raw in items:
        part = _part(validate, raw, (*loc, key))
        if part is not None:
            yield part


def _rules(items: Iterable[tuple[int, Plain]], loc: Loc) -> Iterator[PolicyPart[AnyAddressRule]]:
    for at, raw in items:
        if (kind := rule_kind(raw)) is not None:
            validate: Validate[AnyAddressRule] = kind.model_validate
            yield from _parts(validate, [(at, raw)], loc)


def _settings(clusters: dict[str, Plain]) -> Iterator[PolicyPart[Secret | str]]:
    for name, raw in clusters.items():
        yield from _parts(_SETTING.validate_python, _dict(_dict(raw).get("client")).items(), ("kafka", name, "client"))


def _part(validate: Validate[M], raw: Plain, loc: Loc) -> PolicyPart[M] | None:
    try:
        return PolicyPart(loc, validate(raw))
    except ValidationError as error:
        return _repaired(validate, raw, loc, error) if isinstance(raw, dict) else None


def _repaired(validate: Validate[M], raw: dict[str, Plain], loc: Loc, error: ValidationError) -> PolicyPart[M] | None:
    """The part without its invalid keys; None if nothing usable is left."""
    rest, broken, suspects = deepcopy(raw), set[str](), set[str]()
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        unknown = detail["type"] == "extra_forbidden"
        place = file_loc(detail["loc"], at_key=unknown)
        if place and unknown:
            _drop(rest, place)
            meant = nearest(str(place[0]), allowed_keys(loc))
            suspects |= {meant} if meant else set()
        elif place:
            broken.add(str(place[0]))
    for key in broken:
        rest.pop(key, None)
        rest |= {key: _PLACEHOLDERS[key]} if key in _PLACEHOLDERS else {}
    try:
        return PolicyPart(loc, validate(rest), frozenset(broken | suspects))
    except ValidationError:
        return None


def _drop(data: Plain, loc: Loc) -> None:
    """Remove the key at `loc` from `data`."""
    for part in loc[:-1]:
        data = _list(data)[part] if isinstance(part, int) else _dict(data)[part]
    del _dict(data)[str(loc[-1])]


def _dict(value: Plain) -> dict[str, Plain]:
    return value if isinstance(value, dict) else {}


def _list(value: Plain) -> list[Plain]:
    return value if isinstance(value, list) else []
