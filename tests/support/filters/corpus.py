"""The three messages of docs/conformance.md, part 2, and the result of each filter of a long list on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Described, Int, Long, Symbol, Timestamp, Ubyte, Ulong
from tests.support.amqp.messages import message

M1 = message(
    header=[None, Ubyte(9)],
    ma={"event-streams-group-key": "k"},
    app={
        "color": "red",
        "n": Int(5),
        "big": 5,
        "f": 0.5,
        "flag": True,
        "s": "ABC%",
        "q": "it's",
        "zero": Int(0),
        "nul": None,
        "list": [Int(1), "a"],
        "amp": "&S:x",
    },
    message_id="id-1",
    to="x",
    subject="Ab.jpg",
    content_type="application/json",
    footer={"hash": b"\x01"},
)
M2 = message(app={"color": "blue", "n": Int(6)})
M3 = message(value={"order": {"id": Int(7)}, "items": [{"sku": "x"}, {"sku": "y"}], "x": "v"}, creation_time=9)
CORPUS = {"1": M1, "2": M2, "3": M3}


class Case(NamedTuple):
    """A filter and the messages that match it."""

    filter: Described
    matched: str


def described(kind: str | int, content: Any) -> Described:
    return Described(Ulong(kind) if isinstance(kind, int) else Symbol(kind), content)


def sql(text: str) -> Described:
    return described("amqp:sql-filter", text)


def case(rows: str, given: Described | str, matched: str) -> Any:
    """One parameter: its rows, separated by blanks."""
    found = sql(given) if isinstance(given, str) else given
    name = str(found.value)[:60]
    return pytest.param(Case(found, matched), marks=pytest.mark.row(*rows.split()), id=f"{found.descriptor}-{name}")


def props(section: str, content: Any) -> Described:
    return described(f"amqp:{section}-filter", content)


def app(**entries: Any) -> Described:
    return props("application-properties", entries)


RED, BLUE = app(color="red"), app(color="blue")


def group(kind: str, *members: Described) -> Described:
    return described(f"amqp:{kind}-filter", list(members))


def subject(reference: Any) -> Described:
    return props("properties", [None, None, None, reference])


GROUPS = [
    case("FX-3-1 FX-3.1-1 FX-3.1-2", group("all", RED, app(n=Long(5))), "1"),
    case("FX-3.1-1", group("all", RED, BLUE), ""),
    case("FX-3.1-2", described("amqp:all-filter ", [RED]), "1"),
    case("FX-3.2-1 FX-3.2-2", group("any", RED, BLUE), "12"),
    case("FX-3.3-1 FX-3.3-2", group("not", RED, BLUE), "3"),
    case("FX-3.3-1", group("not", sql("n > 5")), "13"),
    case("FX-3-2", group("any", group("all", RED, sql("n = 5")), group("not", RED, BLUE)), "13"),
]
PROPERTIES = [
    case("FX-4-3 FX-4-4 FX-4.4-1 FX-4-1", props("header", [None, Ubyte(9)]), "1"),
    case("FX-4-4 FX-4.4-1", props("header", [None, Ubyte(4)]), "23"),
    case("FX-4-4", props("header", [False]), "123"),
    case("FX-4-3", props("header", {Symbol("priority"): Ubyte(9)}), "1"),
    case("FX-4-3", props("properties", {Symbol("subject"): "Ab.jpg"}), "1"),
    case("FX-4-6", props("properties", [None] * 13), "123"),
    case("FX-4-7 FX-4-20 FX-4.1-1 FX-4-1", subject("Ab.jpg"), "1"),
    case("FX-4-10", subject("ab.jpg"), ""),
    case("FX-4.1-1", props("properties", ["id-1", None, "x", None, None, None, Symbol("application/json")]), "1"),
    case("FX-4.1-1 FX-4-7", props("properties", [None] * 9 + [Timestamp(9)]), "3"),
    case("FX-4-10", props("properties", [None] * 6 + ["application/json"]), "1"),
    case("FX-4-5 FX-4.2-1 FX-4-1", app(color="red", n=Int(5)), "1"),
    case("FX-4-5", app(color="red", n=Int(6)), ""),
    case("FX-4-8", app(n=Ubyte(5), big=Int(5)), "1"),
    case("FX-4-7", app(n="5"), ""),
    case("FX-4-7", app(flag=Int(1)), ""),
    case("FX-4-9", app(f=Int(0)), ""),
    case("FX-4-7", app(list=[Int(1), "a"]), "1"),
    case("FX-4-7", app(list=[Int(2), "a"]), ""),
    case("FX-4-19", app(color=None), "12"),
    case("FX-4-19", app(nul=None), "1"),
    case("FX-4-19", app(color="red", other=None), ""),
    case("FX-4-11", subject("&S:.jpg"), "1"),
    case("FX-4-11", subject("&S:.JPG"), ""),
    case("FX-4-12", subject("&P:Ab"), "1"),
    case("FX-4-12", subject("&P:ab"), ""),
    case("FX-4-12", subject("&P:"), "1"),
    case("FX-4-13", subject("&s:.JPG"), "1"),
    case("FX-4-14", subject("&p:aB"), "1"),
    case("FX-4-15", subject("&i:AB.JPG"), "1"),
    case("FX-4-15", subject("&i:AB"), ""),
    case("FX-4-16", app(amp="&&S:x"), "1"),
    case("FX-4-18", app(n="&P:5"), ""),
    case("FX-4.3-1 FX-4-1", props("message-annotations", {Symbol("event-streams-group-key"): "k"}), "1"),
    case("FX-4.5-1 FX-4-1", props("footer", {Symbol("hash"): b"\x01"}), "1"),
    case("FX-4.5-1", props("footer", {Symbol("hash"): b"\x02"}), ""),
    case("FX-3-4", described(0x173, [None, None, None, "Ab.jpg"]), "1"),
    case("FX-3-4", described(0x174, {"color": "red"}), "1"),
    case("FX-3-4", described(0x120, "color = 'red'"), "1"),
]
EXPRESSIONS = [
    case("FX-5-1 FX-2-1", "a.color = 'red'", "1"),
    case("FX-5-2", "NOT a.color = 'red'", "2"),
    case("FX-5-3", "1=2 AND 1=2 OR 1=1", "123"),
    *(
        case("FX-5-4", f"n {sign} {number}", matched)
        for sign, number, matched in [
            ("=", 5, "1"),
            ("<>", 5, "2"),
            ("!=", 5, "2"),
            (">", 5, "2"),
            (">=", 5, "12"),
            ("<", 6, "1"),
            ("<=", 5, "1"),
        ]
    ),
    case("FX-5-4", "a.n = 5.0", "1"),
    case("FX-5-4 FX-2-1", "a.color > 1", ""),
    case("FX-5-5", "a.color IS NULL", "3"),
    case("FX-5-5", "a.nul IS NULL AND color IS NOT NULL", "12"),
    case("FX-5-6", "a.n IN (1, 2 + 3)", "1"),
    case("FX-5-6", "a.n NOT IN (5)", "2"),
    case("FX-5-7", "a.s LIKE 'ABC\\%' ESCAPE '\\'", "1"),
    case("FX-5-7", "a.color LIKE '_l%e'", "2"),
    case("FX-5-7", "a.color NOT LIKE 'R%'", "12"),
    case("FX-5-8", "EXISTS(a.nul)", "1"),
    case("FX-5-9", "(a.n = 5 OR a.n = 6) AND NOT (a.color = 'blue')", "1"),
    case("FX-5-9", "(a.n + 1) * 2 = 12", "1"),
    case("FX-5-10", "a.n % 2 = 0", "2"),
    case("FX-5-10", "a.n / 2 = 2", "1"),
    case("FX-5-10", "-a.n = -5", "1"),
    case("FX-5-10 FX-2-1", "a.n / a.zero = 1", ""),
    case("FX-5-12", "a.n = 05", "1"),
    case("FX-5-13", "a.f = .5", "1"),
    case("FX-5-14", "a.f = 5E-1", "1"),
    case("FX-5-14", "a.n = 5E0", "1"),
    case("FX-5-15", "a.flag = TRUE", "1"),
    case("FX-5-15", "a.flag", "1"),
    case("FX-5-15", "FALSE", ""),
    case("FX-5-16", "a.color = NULL", ""),
    case("FX-5-17", "a.q = 'it''s'", "1"),
    case("FX-5-18", "color = 'red'", "1"),
    case("FX-5-19", "header.priority = 9 AND h.priority > 8", "1"),
    case("FX-5-19", "footer.hash IS NOT NULL AND F.[hash] IS NOT NULL", "1"),
    case("FX-5-19", "properties.subject = 'Ab.jpg' AND p.to = 'x'", "1"),
    case("FX-5-19", "application_properties.n = 5 AND application-properties.n = 5", "1"),
    case("FX-5-19", "message_annotations.[event-streams-group-key] = 'k' AND m.x IS NULL", "1"),
    case("FX-5-19", "amqp-value.x = 'v' AND amqp_value.x = v.x", "3"),
    case("FX-5-20", "p.message_id = 'id-1' AND p.[message-id] = 'id-1'", "1"),
    case("FX-5-20", "a.[color] = 'red' AND [color] = 'red'", "1"),
    case("FX-5-21", "v.order.id = 7", "3"),
    case("FX-5-22", "v.items[0].sku = 'x' AND v.items[2 - 1].sku = 'y'", "3"),
    case("FX-5-22", "v.items[2].sku IS NULL AND v.x = 'v'", "3"),
    case("FX-5-23", "v = 'x'", ""),
    case("FX-5-24", "s.x = 1", ""),
    case("FX-1-3", "JMSPriority = 9", ""),
    case("FX-1-3", "JMSPriority IS NULL", "123"),
    case("FX-2-4", "v.x IS NULL", "12"),
    case("FX-2-5", "d.event-streams-offset > '@earliest'", ""),
    case("FX-2-3", described(0x468C00000004, "JMSPriority = 9 AND color = 'red'"), "1"),
    case("FX-2-3", described("apache.org:selector-filter:string", "n BETWEEN 5 AND 5 AND JMSMessageID = 'id-1'"), "1"),
]
CASES = [*GROUPS, *PROPERTIES, *EXPRESSIONS]
