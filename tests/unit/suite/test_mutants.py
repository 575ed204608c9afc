"""The mutation tool changes what it says, everywhere, and nothing that only describes."""

from __future__ import annotations

from tests.mutation.mutants import mutants
from tests.mutation.reached import begin_of
from tests.mutation.targets import ROOMS, files_of_tests
from tests.support.project.parts import ROOT

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
        SOURCE.replace("return items[0] + é", "return None"),
        SOURCE.replace("items[0]", "items[1]"),
        SOURCE.replace("items[0] + é", "items[0] - é"),
    }
    assert {text.replace("items  and", "items and") for text in changed} == expected


def test_a_line_belongs_to_its_innermost_function_with_decorators() -> None:
    source = "A = 1\n@cached\ndef outer():\n    def inner():\n        return 1\n    return inner\n"
    assert [begin_of(line, source) for line in range(1, 7)] == [0, 2, 2, 4, 4, 2]


def test_every_room_has_files_and_there_are_tests_of_each_folder() -> None:
    for room in ROOMS:
        assert all(list(ROOT.glob(pattern)) for pattern in room), room
    assert {name.split("/")[1] for name in files_of_tests()} == {"unit", "property", "protocol", "integration"}
