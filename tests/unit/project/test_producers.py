"""What tests write to Kafka stays in order, also when the client has to send it again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.project.parts import ROOT

ORDERED = "enable.idempotence", "transactional.id"


def own_producers() -> Iterator[tuple[str, str]]:
    """The producers that tests on real servers make with settings of their own: module and call."""
    for path in (ROOT / "tests" / "integration").rglob("*.py"):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "Producer({" in "".join(source.split()) else ():
            call = ast.get_source_segment(source, node) if isinstance(node, ast.Call) else None
            if call is not None and "".join(call.split()).startswith("Producer({"):
                yield path.name, call


def test_no_producer_swaps_records_that_it_sends_again() -> None:
    """A leader that is not ready or changes made others do so, and a run of the suite failed."""
    found = list(own_producers())
    assert found, "none is looked at"
    assert [each for each in found if not any(setting in each[1] for setting in ORDERED)] == []
