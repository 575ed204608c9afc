"""Random messages: a draw for each thing that differs, from strategies that are made once."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from tests.support.filters.values import SCALARS, TEXTS, UUIDS, VALUES, entries, evenly


def _field(*values: Any) -> st.SearchStrategy[Any]:
    """Null or one of these, as often."""
    return evenly((None,), values)


_TEXTS, _FLAGS, _NUMBERS = _field(*TEXTS), _field(False, True), _field(*map(codec.Uint, (0, 5, 255)))
_IDS, _TIMES = _field(*TEXTS, codec.Ulong(5), *UUIDS, b"a"), _field(*map(codec.Timestamp, (0, 5, 127)))
_SYMBOLS = _field(*map(codec.Symbol, ("a", "ab", "application/json")))
_HEADER = (_FLAGS, _field(*map(codec.Ubyte, (0, 4, 5))), _NUMBERS, _FLAGS, _NUMBERS)
_PROPERTIES = (
    _IDS, _field(b"", b"a"), _TEXTS, _TEXTS, _TEXTS, _IDS, _SYMBOLS, _SYMBOLS, _TIMES, _TIMES, _TEXTS, _NUMBERS, _TEXTS,
)  # fmt: skip
_ANNOTATIONS, _SCALAR_MAP, _MAP = entries(VALUES, 3), entries(SCALARS), entries(VALUES)
_BODIES = (
    (sections.DATA, st.just(b"a")),
    (sections.AMQP_SEQUENCE, st.lists(SCALARS, max_size=2)),
    (sections.AMQP_VALUE, _ANNOTATIONS),
    (sections.AMQP_VALUE, VALUES),
)
_SIZES = {count: st.integers(0, count) for count in (len(_HEADER), len(_PROPERTIES))}


@st.composite
def _prefix(draw: st.DrawFn, kinds: tuple[st.SearchStrategy[Any], ...]) -> list[Any]:
    return [draw(kind) for kind in kinds[: draw(_SIZES[len(kinds)])]]


_PARTS = (
    (sections.HEADER, _prefix(_HEADER)),
    (sections.DELIVERY_ANNOTATIONS, _ANNOTATIONS),
    (sections.MESSAGE_ANNOTATIONS, _ANNOTATIONS),
    (sections.PROPERTIES, _prefix(_PROPERTIES)),
    (sections.APPLICATION_PROPERTIES, _SCALAR_MAP | _MAP),
)
# Which parts there are, each in three quarters; which body; whether a footer.
_SHAPES = st.sampled_from(list(product(*[(0, 1, 1, 1)] * len(_PARTS), range(len(_BODIES)), (0, 1))))


@st.composite
def _messages(draw: st.DrawFn) -> bytes:
    *present, body, footer = draw(_SHAPES)
    parts = [part for part, there in zip(_PARTS, present, strict=True) if there] + [_BODIES[body]]
    parts += [(sections.FOOTER, _ANNOTATIONS)] if footer else []
    return b"".join([sections.section(code, draw(content)) for code, content in parts])


_MESSAGES = _messages()


def messages() -> st.SearchStrategy[bytes]:
    """An encoded message; any section may be missing."""
    return _MESSAGES
