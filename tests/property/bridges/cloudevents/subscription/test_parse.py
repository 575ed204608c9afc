"""Any text is a subscription or invalid; realizing is idempotent; no secret comes out of the object or a mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from bridges.cloudevents.model.strict_json import MAX_DEPTH, read_object
from bridges.cloudevents.model.values import InvalidSubscription
from bridges.cloudevents.subscription.stored_form import SubscriptionKeys, from_stored, to_stored
from gateway.response.cookies.keys import KeyRing, SigningSecret
from tests.support.cloudevents.objects import (
    AMQP,
    HTTP,
    KAFKA,
    MQTT3,
    MQTT5,
    NATS,
    NOW_MS,
    RULES,
    parsed,
    with_settings,
)

MARK: Final = "s3cr3t"
TOKEN: Final = {
    "credentialtype": "REFRESHTOKEN",
    "accesstoken": MARK,
    "accesstokenexpiresutc": "2026-12-01T00:00:00Z",
    "refreshtoken": MARK,
    "refreshtokenendpoint": "https://login.partner.example/token",
}
LOGIN: Final = {"credentialtype": "PLAIN", "identifier": "u", "secret": MARK}
RIGHT: Final[list[Mapping[str, Any]]] = [
    *(HTTP, MQTT3, MQTT5, AMQP, KAFKA, NATS),
    {**HTTP, "sinkcredential": TOKEN, "types": ["a"], "config": {"address": "events/orders", "start": {"0": "7"}}},
    with_settings({**HTTP, "sinkcredential": LOGIN}, x_secretheaders={"x-key": MARK}, x_mode="batched"),
    {**MQTT5, "sinkcredential": LOGIN, "filter": {"dialect": "sql", "expression": "type = 'x'"}},
    {**AMQP, "filters": [{"any": [{"exact": {"a": "b"}}, {"not": {"prefix": {"c": "d"}}}]}], "source": "/s"},
    {**KAFKA, "filter": {"dialect": "basic", "filters": [{"type": "suffix", "property": "p", "value": "v"}]}},
]
SCALARS: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8),
    st.sampled_from(["PLAIN", "https://h.partner.example", "basic", "kafka:///", "earliest", "events/orders", MARK]),
)  # fmt: skip
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES: Final = st.sampled_from([
    "id", "protocol", "sink", "protocolsettings", "filter", "filters", "types", "source", "config", "sinkcredential",
    "dialect", "expression", "headers", "method", "qos", "topicname", "subject", "address", "start", "expires",
    "x-secretheaders", "x-mode", "x-batch", "x-retry", "x-order", "credentialtype", "secret", "accesstoken",
])  # fmt: skip
KEYS: Final = SubscriptionKeys(KeyRing("k", {"k": SigningSecret(b"k" * 32)}), lambda: NOW_MS)


def _objects(value: Any) -> list[dict[str, Any]]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for item in below for found in _objects(item))]


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """A right object with a few members changed, added or taken out, anywhere in it."""
    value = deepcopy(dict(draw(st.sampled_from(RIGHT))))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(_objects(value)))
        name = draw(st.sampled_from(sorted(place)) if place and draw(st.booleans()) else NAMES | st.text(max_size=5))
        if draw(st.booleans()):
            place.pop(name, None)
        else:
            place[name] = draw(VALUES)
    return value


def _error_text(invalid: InvalidSubscription) -> str:
    assert invalid.mistakes
    for mistake in invalid.mistakes:
        assert mistake.message
        assert mistake.field == "" or mistake.field.startswith("/")
    return str(invalid)


@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_text_is_invalid_or_an_object(body: bytes) -> None:
    try:
        parsed(body)
    except InvalidSubscription as invalid:
        _error_text(invalid)
    else:
        raise AssertionError("such a text is no subscription")


@given(changed())
def test_any_object_is_realized_or_invalid_and_realizing_is_idempotent(value: dict[str, Any]) -> None:
    try:
        found = parsed(value)
    except InvalidSubscription as invalid:
        _error_text(invalid)
        return
    again = parsed(found.document, stored=found)
    assert again == found
    assert again.document == found.document
    assert from_stored(json.loads(to_stored(found, RULES, KEYS)), RULES, KEYS) == found


@given(changed())
def test_no_secret_comes_out(value: dict[str, Any]) -> None:
    """Secrets are the marked text, put in the places where secrets are."""
    if MARK in json.dumps(_without_secrets(value)):
        return  # the text is somewhere else, too: there it is no secret
    try:
        found = parsed(value)
    except InvalidSubscription as invalid:
        seen = _error_text(invalid)
    else:
        seen = json.dumps(found.document) + repr(found) + to_stored(found, RULES, KEYS).decode()
    assert MARK not in seen


def _without_secrets(value: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(value)
    for place in _objects({"": found}):
        for name in ("secret", "accesstoken", "refreshtoken", "x-secretheaders"):
            place.pop(name, None)
    return found


@given(st.integers(1, 40), st.sampled_from([(b"[", b"]"), (b'{"a":', b"}")]))
def test_depth_is_bounded(depth: int, sides: tuple[bytes, bytes]) -> None:
    body = b'{"v":' + sides[0] * depth + b"1" + sides[1] * depth + b"}"
    try:
        read_object(body)
    except InvalidSubscription:
        assert depth + 1 > MAX_DEPTH
    else:
        assert depth + 1 <= MAX_DEPTH
