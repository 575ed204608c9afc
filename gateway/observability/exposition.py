"""Prometheus' text format in pieces, so that other work goes on while a page of very many series is written. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

from prometheus_client.utils import floatToGoString

from gateway.observability.catalog import CATALOG
from gateway.observability.counters import Labels, Reading
from gateway.observability.histogram import HistogramSample

PREFIX: Final = "scopegate_"
PIECE: Final = 200
"""Samples of a piece, and lines, more or less."""
_HISTOGRAM: Final = 20
"""Lines of a histogram, more or less."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
Pieces = Iterator[bytes | None]
"""Pieces of text; where there is None, none is ready, and other work may be done as well."""
Named = TypeVar("Named", Reading, HistogramSample)


def written(kind: str, readings: Iterable[Reading]) -> Pieces:
    """Counters or gauges; those of a metric together, as the format wants it."""
    families = yield from _families(readings)
    for name, family in families.items():
        full = f"{PREFIX}{name}_total" if kind == "counter" else PREFIX + name
        yield _head(full, name, kind)
        for some in _parts(family, PIECE):
            yield "".join(f"{full}{_braced(labels)} {_number(value)}\n" for _, labels, value in some).encode()


def written_histograms(samples: Iterable[HistogramSample]) -> Pieces:
    """Histograms: their buckets, numbers and sums."""
    families = yield from _families(samples)
    for name, family in families.items():
        full = PREFIX + name
        yield _head(full, name, "histogram")
        for some in _parts(family, PIECE // _HISTOGRAM):
            yield "".join(line for each in some for line in _histogram(full, each)).encode()


def _families(samples: Iterable[Named]) -> Generator[None, None, dict[str, list[Named]]]:
    families: dict[str, list[Named]] = {}
    for number, sample in enumerate(samples):
        families.setdefault(sample[0], []).append(sample)
        if number % PIECE == 0:
            yield
    return families


def _parts(family: list[Named], size: int) -> Iterator[list[Named]]:
    return (family[at : at + size] for at in range(0, len(family), size))


def _head(full: str, name: str, kind: str) -> bytes:
    described = CATALOG.get(name)
    text = name.replace("_", " ") if described is None else described.text
    return f"# HELP {full} {text}\n# TYPE {full} {kind}\n".encode()


def _histogram(full: str, sample: HistogramSample) -> Iterator[str]:
    before = "".join(f"{_pair(*label)}," for label in sorted(sample.labels) if label[0] < "le")
    after = "".join(f",{_pair(*label)}" for label in sorted(sample.labels) if label[0] > "le")
    begin, end = f'{full}_bucket{{{before}le="', f'"{after}}} '
    number = "0.0"
    for bound, count in sample.value.buckets():
        number = _number(count)
        yield f"{begin}{bound}{end}{number}\n"
    braced = _braced(sample.labels)
    yield f"{full}_count{braced} {number}\n{full}_sum{braced} {_number(sample.value.total)}\n"


def _braced(labels: Labels) -> str:
    return f"{{{','.join(_pair(*label) for label in sorted(labels))}}}" if labels else ""


def _pair(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'


_number: Final = lru_cache(1024)(floatToGoString)
