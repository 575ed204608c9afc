"""The part of a route in the policy that a node on a topic uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from policies.model.scopes.assignment import Assignment
from policies.model.scopes.reading import LogReadingRule


class NodeRoute(Protocol):
    """The route of a node; `policies.rules.KafkaRoute` is one."""

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
