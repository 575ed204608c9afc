"""What `check` says of a name that does not exist: a guess and what is allowed, in bounds where there are thousands."""

from __future__ import annotations

import pytest

from policies.schema import nearest
from policies.text.diagnostics import PolicyErrors
from tests.support.gateway.policy import load_text

POLICY = """
scopes:
  edge:
    addresses: [{match: "q/**", relay: borker-7, replies: none}]
    connect: [%s]
"""


def mistake(connectors: int) -> str:
    listed = ", ".join(f"{{name: broker-{at}, to: 'amqp://b'}}" for at in range(connectors))
    with pytest.raises(PolicyErrors) as error:
        load_text(POLICY % listed)
    (found,) = error.value.problems
    return str(found)


def test_a_few_names_are_listed_and_the_nearest_is_guessed() -> None:
    assert mistake(2).endswith("did you mean broker-1? (allowed: broker-0, broker-1)")
    assert mistake(0).endswith("borker-7 (allowed: none yet)")


def test_very_many_names_are_not_all_listed() -> None:
    text = mistake(300)
    assert text.endswith(" and 250 more)")
    assert len(text) < 1_000


def test_of_very_many_names_those_around_it_are_compared() -> None:
    names = [f"broker-{at}" for at in range(5_000)]
    assert (nearest("brokers-4711", names) or "").startswith("broker-")
    assert nearest("zebra", names) is None
    assert nearest("Broker_4711", names) == "broker-4711"
