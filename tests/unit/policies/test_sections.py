"""The sections of the policy language take little time to declare, and are built when a file has them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import get_annotations

from pydantic import TypeAdapter, ValidationError

from policies.model.kafka import KafkaCluster
from policies.model.policy import Policy
from policies.model.scopes.addresses import Match
from policies.values.base import Strict
from policies.values.units import Duration


def sections(kind: type[Strict] = Strict) -> Iterator[type[Strict]]:
    for each in kind.__subclasses__():
        yield each
        yield from sections(each)


def test_annotations_are_not_compiled_again() -> None:
    assert Policy in sections()
    for section in sections():
        if section.__module__.startswith("policies."):
            assert not [each for each in get_annotations(section).values() if isinstance(each, str)]


def test_the_type_of_a_value_with_a_text_form_has_no_schema_of_its_own() -> None:
    for kind in (Duration, Match):
        schema = TypeAdapter(kind).core_schema
        assert schema["type"] == "function-plain"
        assert "serialization" not in schema


def test_mistakes_of_a_section_within_another_have_their_places() -> None:
    """It is called by the other's validator, not contained in it."""
    wrong = {"kafka": {"main": {"security": {"sasl": {"user": 1, "x": 2}}}}, "scopes": {}}
    found: list[tuple[str, tuple[int | str, ...]]] = []
    try:
        Policy.model_validate(wrong)
    except ValidationError as error:
        found = [(each["type"], each["loc"]) for each in error.errors()]
    place = "kafka", "main", "security", "sasl"
    assert found == [
        ("string_type", (*place, "user")), ("extra_forbidden", (*place, "x")), ("too_short", ("scopes",))
    ]  # fmt: skip
    field = KafkaCluster.__pydantic_core_schema__["schema"]["schema"]["fields"]["security"]  # type: ignore[typeddict-item]
    assert "function-plain" in str(field)
