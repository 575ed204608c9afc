"""Whatever a policy file holds, loading ends in a policy or in its mistakes; patterns mean what they say."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from policies.rules import CompiledPolicy
from policies.schema import json_schema
from policies.values.patterns import parse_pattern, routable
from tests.support.gateway.policy import load_any

LINES = [
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "!t ",
    "? ",
    "|",
    ">",
    "%",
    "@",
    '"',
    "'",
    "\n",
    "  ",
    "\\U",
    "#",
]


def keys_of(node: Any) -> set[str]:
    if isinstance(node, dict):
        return set(node.get("properties", {})) | {key for value in node.values() for key in keys_of(value)}
    return {key for value in node for key in keys_of(value)} if isinstance(node, list) else set()


KEYS = sorted(keys_of(json_schema()))
WORDS = [
    "edge",
    "core",
    "10s",
    "**",
    "a/{b}",
    "127.0.0.1:5672",
    "amqps://b",
    "plain",
    "balanced",
    "send",
    "embedded",
]
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), inner, max_size=5),
    ),
    max_leaves=25,
)
rule = st.dictionaries(
    st.sampled_from(["match", "direct", "relay", "kafka", "topic", "address", "replies", "redirect", "hostname"]),
    scalars,
)
listener = st.dictionaries(st.sampled_from(["bind", "sasl", "users", "tls", "limits"]), values)
scope = st.fixed_dictionaries(
    {},
    optional={
        "listen": st.lists(listener, max_size=2),
        "addresses": st.lists(rule, max_size=3),
        "connect": st.lists(values, max_size=2),
        "access": st.lists(st.dictionaries(st.sampled_from(["who", "may", "on"]), values), max_size=2),
    },
)
policies = st.fixed_dictionaries(
    {"scopes": st.dictionaries(st.sampled_from(["edge", "core", "a b"]), st.one_of(scope, values))},
    optional={"gateway": values, "keys": values, "kafka": values},
)


@given(st.one_of(policies, values))
@example({"scopes": {"edge": {"listen": [{"bind": "a:1", "tls": {"<": None, "access": None}}]}}})
@example({"scopes": {"<edge>": {"addresses": [{"match": "x", "direct": "balanced", "<DirectRule>": 1}]}}})
def test_any_values_are_a_policy_or_mistakes(value: Any) -> None:
    loaded = load_any(json.dumps(value).encode())
    if isinstance(loaded, CompiledPolicy):
        assert loaded.scopes.keys() == loaded.model.scopes.keys()


@given(st.lists(st.one_of(st.sampled_from(LINES + KEYS), st.text(max_size=3)), max_size=40).map("".join))
@example("scopes: {e: &a [*a]}")
@example('scopes: "\\U99999999"')
@example("? {a: b}\n: c")
def test_any_text_is_a_policy_or_mistakes(text: str) -> None:
    load_any(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_policy_or_mistakes(raw: bytes) -> None:
    load_any(raw)


plain = st.text(st.characters(exclude_characters="/{}*", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
segment = st.one_of(plain, st.just("*"), plain.map(lambda text: text + "{n}"), st.just("{n}"))
tails = st.sampled_from(["", "/**"])


@given(st.lists(segment, min_size=1, max_size=4), tails, st.data())
def test_a_pattern_matches_what_fills_it_and_gives_it_back(parts: list[str], tail: str, data: st.DataObject) -> None:
    named = [part.replace("{n}", f"{{n{at}}}") for at, part in enumerate(parts)]
    pattern = parse_pattern("/".join(named) + tail)
    fills = [
        data.draw(st.text(st.characters(exclude_characters="/", exclude_categories=["C", "Zl", "Zp"]), min_size=1))
        for _ in parts
    ]
    filled = [
        part.replace(f"{{n{at}}}", fill) if "{" in part else fill if part == "*" else part
        for at, (part, fill) in enumerate(zip(named, fills, strict=True))
    ]
    address = "/".join(filled)
    assert routable(pattern.example())
    assert pattern.match(pattern.example()) is not None
    wanted = {f"n{at}": fills[at] for at, part in enumerate(named) if "{" in part}
    assert pattern.match(address) == wanted
    assert (pattern.match(address + "/more") is not None) == (tail == "/**")


@given(st.text(max_size=2000))
def test_no_address_with_control_characters_is_routable(address: str) -> None:
    if routable(address):
        assert 0 < len(address) <= 1024
        assert address.isprintable() or not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in address)
