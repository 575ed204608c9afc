"""The published schema and reference are those of the model."""

from __future__ import annotations

import json

from policies.reference import markdown
from policies.schema import allowed_keys, json_schema, nearest
from tests.support.project.parts import ROOT

AGAIN = "run `scopegate schema > policies/schema.json; scopegate schema --markdown > docs/policy.md`"


def test_the_published_files_are_current() -> None:
    assert json.loads((ROOT / "policies/schema.json").read_text()) == json_schema(), AGAIN
    assert (ROOT / "docs/policy.md").read_text() == markdown(), AGAIN


def test_every_key_is_described_and_no_other_is_allowed() -> None:
    schema = json_schema()
    for part in [schema, *schema["$defs"].values()]:
        assert part["additionalProperties"] is False
        assert all(key.get("description") for key in part["properties"].values())


def test_keys_are_found_at_their_place() -> None:
    assert allowed_keys(("scopes", "edge", "listen", 0, "tls")) == [
        "cert",
        "key",
        "key_password",
        "client_ca",
        "require_client_cert",
    ]
    assert allowed_keys(("scopes", "edge", "addresses", 3, "<DirectRule>")) == ["match", "direct"]
    assert allowed_keys(("nowhere", 1)) == []


def test_the_nearest_key() -> None:
    assert nearest("Adresses", ["addresses", "access"]) == "addresses"
    assert nearest("idle-timeout", ["idle_timeout"]) == "idle_timeout"
    assert nearest("zzz", ["addresses"]) is None
