"""A large policy says the same as a small one: each mistake, at its place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.gateway.policy import load_text, mistakes
from tests.unit.policies.test_load import WRONG, WRONG_SAID

RULES = "\n".join(f'      - {{match: "area/{number}/**", direct: balanced}}' for number in range(2000))
LARGE = f"scopes:\n  edge:\n    addresses:\n{RULES}\n"


def test_a_large_file_of_mistakes_gives_them_all_in_order() -> None:
    assert mistakes(WRONG + "# no rule\n" * 10_000) == WRONG_SAID.splitlines()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("  core: {addresses: [}", "2004:22: not YAML: expected the node content"),
        ("  core: {drian: 1}", "2004:10: scopes.core.drian: unknown key"),
        ("  edge: {}", "2004:3: scopes.edge: this key is repeated"),
        ("  core: *x", "2004:9: not YAML: found undefined alias 'x'"),
    ],
)
def test_a_mistake_behind_thousands_of_rules_has_its_line(more: str, said: str) -> None:
    assert mistakes(LARGE + more)[0].startswith(said)


def test_rules_of_a_large_policy_are_those_that_stand_there() -> None:
    rules = load_text(LARGE).model.scopes["edge"].addresses
    assert [rule.match.text for rule in rules] == [f"area/{number}/**" for number in range(2000)]


@pytest.mark.parametrize(("text", "in_c"), [(LARGE, True), (LARGE[:5000].rpartition("\n")[0], False)])
def test_only_a_large_policy_is_worth_the_parser_in_c(text: str, in_c: bool) -> None:
    code = "import sys; from policies.text.tree import parse; parse(sys.stdin.buffer.read(), 'p'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=True, text=True)
    assert ("yaml" in done.stdout.split()) is in_c
