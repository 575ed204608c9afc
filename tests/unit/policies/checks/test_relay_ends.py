"""What `check` says of relays that lead to no address of the other scope."""

from __future__ import annotations

import pytest

from tests.support.gateway.policy import load_text

POLICY = """
scopes:
  edge: {addresses: [{match: "%s", relay: core, replies: none%s}]}
  core: {addresses: [%s]}
"""
ADDRESSES = "{match: 'b/*', direct: balanced}, {match: 'c/{t}-x/**', direct: balanced}"


def warnings(match: str, address: str | None = None, addresses: str = ADDRESSES) -> list[str]:
    more = "" if address is None else f", address: '{address}'"
    return [str(each) for each in load_text(POLICY % (match, more, addresses)).warnings]


@pytest.mark.parametrize(
    ("match", "address"),
    [("a/{n}", "zz/{n}"), ("a/{n}", "b/{n}/more"), ("a/{n}", "{n}"), ("a/*", None), ("b", None), ("c/{n}-y", None)],
)
def test_a_relay_that_leads_nowhere_is_a_warning(match: str, address: str | None) -> None:
    (warning,) = warnings(match, address)
    where = f"leads nowhere: no entry of addresses of scope core matches {address or match}"
    assert f"scopes.edge.addresses[0].relay: {where}" in warning


@pytest.mark.parametrize(
    ("match", "address"),
    [
        ("a/{n}", "b/{n}"), ("a/{n}", "{n}/x"), ("**", None), ("b/**", None), ("c/{n}", "c/{n}-x/1/2"), ("*/{n}", None),
        ("a/{n}", "$subscriptions"),
    ],
)  # fmt: skip
def test_a_relay_that_may_lead_somewhere_is_not(match: str, address: str | None) -> None:
    assert warnings(match, address) == []


def test_a_scope_without_addresses_has_no_end() -> None:
    assert "leads nowhere" in warnings("**", addresses="")[0]
