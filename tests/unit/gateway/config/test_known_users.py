"""Which names can be users of a scope."""

from __future__ import annotations

import pytest

from gateway.amqp.sasl.user_file import load_users, make_entry
from gateway.config.credential_files import CredentialFiles
from gateway.config.known_users import login_check
from tests.support.gateway.policy import load_text
from tests.support.subscriptions.api import SALT

POLICY = """
scopes:
  edge:
    listen: [{listen}]
    api: [{api}]
    addresses: [{{match: "**", direct: balanced}}]
  outer:
    listen: [{outer}]
    addresses: [{{match: "in/**", relay: edge, replies: none}}]
  apart: {{addresses: [{{match: "**", direct: balanced}}]}}
"""
OPEN = '{bind: "127.0.0.1:1"}'
PASSWORD = '{bind: "127.0.0.1:0", sasl: scram-sha-256, users: %s.yaml}'
CERTIFICATE = '{bind: "127.0.0.1:3", sasl: external, tls: {cert: c, key: k, client_ca: a}}'
BASIC = '{bind: "127.0.0.1:4", users: api.yaml, allow_basic_without_tls: true}'
STORES = {f"{name}.yaml": f"{{{name}-user: {make_entry('secret', salt=SALT)}}}" for name in ("own", "api", "out")}
FILES = CredentialFiles({name: load_users(text) for name, text in STORES.items()})
READ = dict.fromkeys([*STORES, "c", "k", "a"], b"")


def known(user: str, *, listen: str = PASSWORD % "own", api: str = BASIC, outer: str = "", scope: str = "edge") -> bool:
    policy = load_text(POLICY.format(listen=listen, api=api, outer=outer), files=READ)
    return login_check(policy.model, FILES, scope)(user)


@pytest.mark.parametrize("user", ["own-user", "api-user"])
def test_a_user_of_any_file_of_the_scope_is_known(user: str) -> None:
    assert known(user)
    assert not known(user, listen=OPEN, api="")
    assert not known("out-user")


def test_a_user_of_a_scope_that_relays_here_is_known() -> None:
    assert known("out-user", outer=PASSWORD % "out")
    assert not known("out-user", outer=PASSWORD % "own")
    assert not known("own-user", scope="outer", outer=PASSWORD % "out")


def test_nobody_but_anonymous_needs_no_login() -> None:
    assert known("anonymous", listen=OPEN)
    assert not known("anonymous")
    assert not known("bob", listen=OPEN)


def test_a_certificate_may_have_any_name() -> None:
    assert known("bob", listen=CERTIFICATE)
    assert known("bob", api='{bind: "127.0.0.1:4", auth: certificate, tls: {cert: c, key: k, client_ca: a}}')


def test_where_nothing_listens_nobody_is_told_to_be_unknown() -> None:
    assert known("bob", scope="apart")
