"""Stored subscriptions: their secrets are sealed, and open only where they were (CE-3.2.1-14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridges.cloudevents.model.values import InvalidSubscription, Json, PlainCredential, RefreshToken
from bridges.cloudevents.subscription.stored_form import (
    SubscriptionKeys,
    encryption_key_of,
    from_stored,
    renewed,
    to_stored,
)
from gateway.response.cookies.keys import KeyRing, SigningSecret
from tests.support.cloudevents.objects import (
    AMQP,
    HTTP,
    KAFKA,
    MQTT5,
    NATS,
    NOW_MS,
    PLAIN,
    POLICY,
    REFRESH,
    RULES,
    mistakes_of,
    parsed,
    rules,
    with_settings,
)

SECRET = with_settings({**HTTP, "sinkcredential": PLAIN}, x_secretheaders={"X-Key": "k3y"})


def keys(active: str = "a", **ring: int) -> SubscriptionKeys:
    secrets = {name: SigningSecret(bytes([number]) * 32) for name, number in (ring or {"a": 1}).items()}
    return SubscriptionKeys(KeyRing(active, secrets), lambda: NOW_MS)


@pytest.mark.parametrize("value", [HTTP, MQTT5, AMQP, KAFKA, NATS, SECRET, {**HTTP, "sinkcredential": REFRESH}])
def test_a_stored_subscription_is_the_same(value: dict[str, Any]) -> None:
    found = parsed(value)
    assert from_stored(json.loads(to_stored(found, RULES, keys())), RULES, keys()) == found


@pytest.mark.row("CE-3.2.1-14")
@pytest.mark.parametrize("value", [SECRET, {**HTTP, "sinkcredential": REFRESH}])
def test_no_secret_is_in_the_document_the_store_or_a_text_of_the_object(value: dict[str, Any]) -> None:
    found = parsed(value)
    for seen in (json.dumps(found.document), to_stored(found, RULES, keys()).decode(), repr(found)):
        assert not [secret for secret in ("s3cret", "k3y", "acc3ss", "r3fresh") if secret in seen]


def test_without_its_key_a_subscription_is_locked() -> None:
    stored = json.loads(to_stored(parsed(SECRET), RULES, keys()))
    for opener in (keys("b", b=2), keys("a", a=2), None):
        found = from_stored(stored, RULES, opener)
        assert found.secrets_unreadable
        assert (found.credential, found.secret_headers) == (None, {})
        assert found.document == parsed(SECRET).document
    assert not from_stored(stored, RULES, keys("b", a=1, b=2)).secrets_unreadable


@pytest.mark.parametrize(
    "change", [{"id": "other"}, {"sink": "https://evil.partner.example/in"}, {"sink": "https://hooks.partner.example:8"}]
)
def test_secrets_open_for_one_id_and_one_origin(change: dict[str, str]) -> None:
    record = json.loads(to_stored(parsed(SECRET), RULES, keys()))
    record["document"] |= change
    assert from_stored(record, RULES, keys()).secrets_unreadable


def test_secrets_open_for_one_manager() -> None:
    other = rules(POLICY.replace("- name: orders", "- name: others").replace("manager: orders", "manager: others"))
    assert from_stored(json.loads(to_stored(parsed(SECRET), RULES, keys())), other, keys()).secrets_unreadable


def test_the_key_that_a_stored_subscription_needs_is_known() -> None:
    assert encryption_key_of(to_stored(parsed(SECRET), RULES, keys("b", a=1, b=2))) == "b"
    assert encryption_key_of(to_stored(parsed(HTTP), RULES, keys())) is None
    assert encryption_key_of(b"no JSON") is None


def test_a_newer_policy_is_no_mistake_in_what_is_stored() -> None:
    narrow = rules(POLICY.replace("*.partner.example", "x.example").replace("100/s}", "100/s, timeout: 1s}"))
    stored = json.loads(to_stored(parsed(with_settings(HTTP, **{"x-timeout": "5s"})), RULES, None))
    found = from_stored(stored, narrow, None)
    assert found.delivery.timeout == 1.0


def test_narrower_limits_of_filters_lose_no_subscription() -> None:
    narrow = rules(POLICY.replace("kafka:\n", "filters: {max_items: 1, max_length: 5}\nkafka:\n", 1))
    many = {**HTTP, "types": ["a", "b"], "filters": [{"sql": "EXISTS subject"}]}
    assert mistakes_of(many, rules=narrow).keys() >= {"/types"}
    assert from_stored(json.loads(to_stored(parsed(many), RULES, None)), narrow, None).filter == parsed(many).filter


@pytest.mark.parametrize("stored", ["", {}, {"form": 2, "owner": "o", "document": {}}, []])
def test_what_another_version_stored_is_invalid(stored: Json) -> None:
    with pytest.raises(InvalidSubscription):
        from_stored(stored, RULES, keys())


def test_a_renewed_token_is_stored_with_its_end() -> None:
    token = RefreshToken("n3w", NOW_MS + 7_200_000, "r2", REFRESH["refreshtokenendpoint"])
    found = renewed(parsed({**HTTP, "sinkcredential": REFRESH}), token)
    assert found.document["sinkcredential"]["accesstokenexpiresutc"] == "2026-11-23T14:00:00Z"  # type: ignore[index,call-overload]
    assert from_stored(json.loads(to_stored(found, RULES, keys())), RULES, keys()) == found


def test_secrets_need_keys() -> None:
    assert parsed(SECRET).credential == PlainCredential("u", "s3cret")
    with pytest.raises(ValueError, match="needs keys"):
        to_stored(parsed(SECRET), RULES, None)
