"""What the rooms of Kafka read of a policy's route to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from policies.model.assignment import Assignment
from policies.model.reading import LogReadingRule


class KafkaRoute(Protocol):
    """A rule of the policy that makes a topic a node."""

    @property
    def topic(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def credit(self) -> int: ...
    @property
    def tombstones(self) -> bool: ...
    @property
    def assignment(self) -> Assignment: ...
    @property
    def reading(self) -> LogReadingRule: ...
    @property
    def key_from(self) -> Sequence[str]: ...
