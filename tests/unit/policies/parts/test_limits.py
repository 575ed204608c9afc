"""Mistakes name limits as the file has to say them."""

from __future__ import annotations

import pytest

from tests.support.gateway.policy import mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys: {active: a, ring: {a: {env: K}}, skew: 6m}", "keys.skew: must be at most 5m"),
        ("keys: {active: a, ring: {a: {env: K}}, expiry: 1ms}", "keys.expiry: must be at least 1s"),
        ("keys: {active: a, ring: {a: {env: K}}, max_cookie: 1MB}", "keys.max_cookie: must be at most 4KiB"),
        ("gateway: {memory: 1MB}", "gateway.memory: must be at least 64MiB"),
        ("gateway: {lease: 301s}", "gateway.lease: must be at most 5m"),
        ("scopes: {edge: {transaction_timeout: 15m}}", "transaction_timeout: must be at most 14m"),
    ],
)
def test_limits_have_the_unit_that_the_value_needs(text: str, said: str) -> None:
    whole = text if text.startswith("scopes") else f"{text}\nscopes: {{edge: {{}}}}"
    assert any(line.endswith(said) for line in mistakes(whole))
