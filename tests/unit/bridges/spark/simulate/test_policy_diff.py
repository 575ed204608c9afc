"""What a candidate policy would have done: known answers on a pair made by hand, and the gateway's own decision."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from bridges.spark.simulate.policy_diff import (
    DIFFERENCES,
    Case,
    CaseReceiver,
    KnownReceivers,
    PolicyEvaluator,
    compare,
    differences,
)
from gateway.amqp.codec.codec import Described, Symbol, encode
from gateway.config.policy import make_filter_rules
from gateway.response.crossing_rule import choose
from policies.load.loader import load_policy
from policies.rules import CompiledPolicy
from tests.support.spark.simulation import JOURNAL, KNOWN, NOW, candidate

SERVICE = CaseReceiver("core", "services/x", None)
KNOWN_RECEIVERS = KnownReceivers({SERVICE: frozenset({True})}, {SERVICE: frozenset({True})})


def policy(tmp_path: Path, text: str) -> CompiledPolicy:
    path = tmp_path / f"{abs(hash(text))}.yaml"
    path.write_text(text)
    return load_policy(path, environ={}, read_bytes=Path.read_bytes, with_secrets=False)


def judge(tmp_path: Path, text: str, known: KnownReceivers = KNOWN_RECEIVERS) -> PolicyEvaluator:
    loaded = policy(tmp_path, text)
    return PolicyEvaluator(loaded, make_filter_rules(loaded.model.filters), known)


def changed(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def case(user: str | None, action: str, address: str | None, **more: Any) -> Case:
    route = more.pop("route", "" if address is not None else "anonymous")
    return Case("edge", user, action, address, route, **more)


def test_known_answers(tmp_path: Path) -> None:
    before, after = judge(tmp_path, NOW), judge(tmp_path, candidate())
    filters = {row.get("address"): tuple(row["filters"]) for row in JOURNAL if row.get("user") == "guest"}
    cases = [
        case(*key, filters=filters.get(key[2], ()) if key[1] == "receive" else ()) for key in KNOWN
    ]
    found = compare(before, after, cases)
    assert {(each.case.user, each.case.action, each.case.address): each.differences for each in found} == KNOWN


def test_the_same_policy_differs_in_nothing(tmp_path: Path) -> None:
    one, other = judge(tmp_path, NOW), judge(tmp_path, NOW + "# a comment moves no decision\n")
    assert all(not each.differences for each in compare(one, other, [case(*key) for key in KNOWN]))


@pytest.mark.parametrize(
    ("edit", "asked", "expected"),
    [
        (("direct: balanced}\n      - {match: \"home/**\"", "direct: multicast}\n      - {match: \"home/**\""),
         case("app", "send", "chat/room"), ("terms",)),
        (("match: \"chat/**\"", "match: \"talk/**\""), case("app", "send", "chat/room"), ("denied",)),
        (("match: \"chat/**\"", "match: \"talk/**\""), case("guest", "send", "chat/room"), ("error",)),
        (("keys: {active: one, ring: {one: {env: KEY}}}", "keys: {active: one, ring: {one: {env: KEY}}, seal: true}"),
         case("app", "send", "svc/x"), ()),
        (("  core:\n", "  core:\n    response_routing: false\n"), case("app", "send", "svc/x"), ("rewritten",)),
        (("to: \"amqp://127.0.0.1:5673\"", "to: \"amqp://127.0.0.1:5673\", replies: {address: gateway}"),
         case("app", "send", "far/y"), ("rewritten",)),
        (("match: \"home/**\"", "match: \"house/**\""), case("app", "send", "svc/x", reply_to="home/1"),
         ("responses",)),
        (('may: [send, receive], on: "**"}', 'may: [send, receive], on: "svc/*"}'),
         case("app", "send", "svc/x", reply_to="home/1"), ("responses",)),
        (("match: \"home/**\"", "match: \"house/**\""), case(None, "send", "home/1"), ("denied",)),
        (("  edge:\n", "  edge:\n    temporary: false\n"), case("app", "receive", None, route="temporary"),
         ("denied",)),
    ],
)  # fmt: skip
def test_each_change_is_named(tmp_path: Path, edit: tuple[str, str], asked: Case, expected: tuple[str, ...]) -> None:
    before, after = judge(tmp_path, NOW), judge(tmp_path, changed(NOW, edit))
    (found,) = compare(before, after, [asked])
    assert found.differences == expected, (str(found.before), str(found.after))
    assert set(expected) <= set(DIFFERENCES)


def filter_set(kind: str, text: str) -> dict[str, Any]:
    encoded = encode({Symbol("f"): Described(Symbol(kind), text)})
    return {"filters": (kind,), "filter_set": base64.b64encode(encoded).decode()}


@pytest.mark.parametrize(
    ("kind", "text", "edit", "expected"),
    [
        ("amqp:sql-filter", "properties.subject = 'x'", ("kafka: {main", "filters: {unknown: refuse}\nkafka: {main"),
         ()),
        ("acme:unknown", "x", ("kafka: {main", "filters: {unknown: refuse}\nkafka: {main"), ("denied",)),
        ("amqp:sql-filter", "properties.subject = 'x'", ("kafka: {main", "filters: {max_length: 5}\nkafka: {main"),
         ("denied",)),
        ("amqp:event-streams-sql-filter", "d.event-streams-timestamp > 5",
         ("kafka: {main", "filters: {timestamps: ms}\nkafka: {main"), ("filtered",)),
    ],
)  # fmt: skip
def test_filters_are_read_by_the_rules_of_each_policy(
    tmp_path: Path, kind: str, text: str, edit: tuple[str, str], expected: tuple[str, ...]
) -> None:
    before, after = judge(tmp_path, NOW), judge(tmp_path, changed(NOW, edit))
    asked = case("app", "receive", "orders/a", **filter_set(kind, text))
    (found,) = compare(before, after, [asked])
    assert found.differences == expected, (found.before, found.after)


def test_an_unknown_receiver_leaves_both_answers(tmp_path: Path) -> None:
    verdict = judge(tmp_path, NOW).verdict(case("app", "send", "svc/other"))
    assert verdict.crossing == ("annotated", "rewritten")
    assert judge(tmp_path, NOW).verdict(case("app", "send", "svc/x")).crossing == ("annotated",)
    assert differences(verdict, verdict) == ()


def test_a_garbled_filter_set_counts_as_unknown(tmp_path: Path) -> None:
    verdict = judge(tmp_path, NOW).verdict(case("app", "receive", "orders/a", filters=("x",), filter_set="?"))
    assert verdict.decision == "allow"
    assert verdict.filtered[0] == "filters not recorded"


@pytest.mark.parametrize(
    ("replies", "keys", "capable", "carries", "result"),
    [
        ("none", True, True, True, "unchanged"),
        ("none", False, False, False, "unchanged"),
        ("homeward", False, False, False, "unchanged"),
        ("homeward", True, True, False, "annotated"),
        ("auto", False, True, False, "refused"),
        ("auto", True, True, True, "annotated"),
        ("auto", True, False, True, "carried"),
        ("auto", True, False, False, "rewritten"),
        ("cookie", True, True, False, "annotated"),
        ("cookie", True, False, False, "refused"),
        ("rewrite", True, True, False, "rewritten"),
        ("rewrite", True, True, True, "carried"),
    ],
)
def test_how_requests_cross(replies: str, keys: bool, capable: bool, carries: bool, result: str) -> None:
    choice = choose(replies, keys=keys, capable=capable, carries=carries)
    assert choice.result == result
    assert (choice.condition is not None) == (result == "refused")
