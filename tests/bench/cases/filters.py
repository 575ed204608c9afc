"""Filters on encoded messages, one core: a two-term filter, many filters at once, and other evaluators."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable
from typing import Any

from proton import Message

from gateway.amqp.codec.codec import Int, Symbol, Ubyte
from gateway.amqp.message.sections import APPLICATION_PROPERTIES, DATA, HEADER, PROPERTIES, section, walk
from gateway.filters.evaluate.access import Encoded, MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index import PredicateIndex
from gateway.filters.parse.sql import parse_sql

BATCH = 2000
TWO_TERMS = "a.color = 'red' AND a.n > 5"
TWO_NUMBERS = "a.size > 5 AND a.n > 5"
_ACCESS = MessageAccess()


def messages(reds: int, first: int = 0) -> list[Encoded]:
    """A batch with properties and six application properties; one of `reds` is red, and `n` is over 5."""
    return [_message(number, number % reds == 0) for number in range(first, first + BATCH)]


def _message(number: int, red: bool) -> Encoded:
    properties = {
        "region": f"eu-{number % 7}",
        "size": Int(17 + number % 3),
        "color": "red" if red else ("blue", "green", f"c{number % 50}")[number % 3],
        "flag": True,
        "n": Int(7 + number % 100),
        "source": f"sensor-{number}",
    }
    data = section(HEADER, [True, Ubyte(4)])
    data += section(PROPERTIES, [f"id-{number}", None, "to", "subject", None, None, Symbol("application/json")])
    data += section(APPLICATION_PROPERTIES, properties) + section(DATA, bytes(100))
    return data, walk(data)


def one_filter(text: str, batch: list[Encoded], seconds: float) -> float:
    """Messages a second for one filter; their sections are known."""
    matches = compile_filter(parse_sql(text), _ACCESS)
    return rate(lambda: [matches(source) for source in batch], seconds)


def with_walk(text: str, batch: list[Encoded], seconds: float) -> float:
    """The same, finding the sections included."""
    matches = compile_filter(parse_sql(text), _ACCESS)
    return rate(lambda: [matches((data, walk(data))) for data, _ in batch], seconds)


def filters_for(count: int) -> list[str]:
    """As many subscribers would write: each wants another colour."""
    return [f"a.color = 'c{number}' AND a.n > 5" for number in range(count)]


def many_filters(form: str, count: int = 1000) -> list[str]:
    """Filters of which a message matches none; `{}` in `form` is their number."""
    return [form.replace("{}", str(number)) for number in range(count)]


MANY = {
    "equal": "a.source = 'x-{}'",
    "prefix": "a.source LIKE 'x-{}%'",
    "suffix": "a.source LIKE '%x-{}'",
    "property": "p.correlation_id = 'x-{}'",
}


def together(texts: list[str], batch: list[Encoded], seconds: float) -> float:
    """Messages a second past all these filters at once."""
    index: PredicateIndex[int, Encoded] = PredicateIndex(_ACCESS)
    for number, text in enumerate(texts):
        index.add(number, parse_sql(text))
    return rate(lambda: [index.matching(source) for source in batch], seconds)


def each_alone(texts: list[str], batch: list[Encoded], seconds: float) -> float:
    """The same, one filter after the other."""
    filters = [compile_filter(parse_sql(text), _ACCESS) for text in texts]
    return rate(lambda: [[matches(source) for matches in filters] for source in batch], seconds)


def installable(batch: list[Encoded], seconds: float) -> dict[str, float]:
    """The same two terms with `rule-engine` from PyPI: on a dict, and with proton's decoding before it.

    Nothing where it is not installed: the suite does not depend on it.
    """
    if importlib.util.find_spec("rule_engine") is None:
        return {}
    import rule_engine

    rule: Any = rule_engine.Rule("color == 'red' and n > 5")
    dicts = [dict(_decoded(data)) for data, _ in batch]
    return {
        "rule_engine": rate(lambda: [rule.matches(found) for found in dicts], seconds),
        "proton_and_rule_engine": rate(lambda: [rule.matches(_decoded(data)) for data, _ in batch], seconds),
    }


def _decoded(data: bytes) -> dict[str, Any]:
    message = Message()
    message.decode(data)
    return message.properties or {}


def rate(run: Callable[[], Iterable[Any]], seconds: float) -> float:
    """Messages a second of processor time: the best batch, which other work can only make slower."""
    best, end = float("inf"), time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.process_time_ns()
        run()
        best = min(best, time.process_time_ns() - start)
    return BATCH / best * 1e9
