"""The mutation tool changes what it says, everywhere, and nothing that only describes."""

from __future__ import annotations

from tests.mutation.mutants import mutants
from tests.mutation.targets import TARGETS
from tests.support.parts import ROOT

SOURCE = '''
"""A docstring."""

def pick(items: list[int], most: int = 3) -> int | None:
    """Another."""
    assert items
    if not items or (len(items) > most):
        return None
    items.pop()
    log.info("picked", number=1)
    é = 1; return items[0] + é
'''


def test_each_kind_of_mutant_is_made_in_its_place() -> None:
    changed = {mutant.apply(SOURCE) for mutant in mutants(SOURCE)}
    expected = {
        SOURCE.replace("most: int = 3", "most: int = 4"),
        SOURCE.replace("not items or (len(items) > most)", "not (not items or (len(items) > most))"),
        SOURCE.replace("not items or", "(items) or"),
        SOURCE.replace("not items or (len", "not items and (len"),
        SOURCE.replace("len(items) > most", "len(items) >= most"),
        SOURCE.replace("items.pop()", "pass"),
        SOURCE.replace("é = 1", "é = 2"),
        SOURCE.replace("number=1", "number=2"),
        SOURCE.replace("return items[0] + é", "return None"),
        SOURCE.replace("items[0]", "items[1]"),
        SOURCE.replace("items[0] + é", "items[0] - é"),
    }
    assert {text.replace("items  and", "items and") for text in changed} == expected


def test_every_target_has_files_and_tests() -> None:
    for target in TARGETS:
        assert any(list(ROOT.glob(pattern)) for pattern in target.files), target.files
        assert not [name for name in target.tests if not (ROOT / name).is_file()]
