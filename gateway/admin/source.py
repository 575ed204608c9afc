"""What the handlers use of the gateway (`gateway.server.admin` adapts it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.admin.access.identity import Identity
    from gateway.admin.documents.backends import ShownCluster
    from gateway.admin.documents.common import Document
    from gateway.admin.live.credit import CreditWaits
    from gateway.admin.live.rates import Rates
    from gateway.admin.live.streams import ChangeStreams
    from gateway.amqp.transport.connection import Connection
    from gateway.config.policy_state import PolicyState, ReloadOutcome
    from gateway.connectors.connector import Connector
    from gateway.forwarding.worker import BridgeWorker
    from gateway.observability.refusals import RecentRefusals
    from gateway.observability.roster import Roster
    from policies.rules import CompiledPolicy

Key = tuple[str, str]
"""A scope, and a name in it."""


class Steering(Protocol):
    """The process around a gateway."""

    async def reload(self) -> ReloadOutcome:
        """Read the policy again, after a reload in progress; returns how that ended."""

    async def check(self) -> tuple[list[str], list[str]]:
        """The mistakes and the warnings that a reload would find now."""

    def drain(self) -> None:
        """Begin the orderly end of the process."""


class GroupAnswers(Protocol):
    """Answers about consumer groups; raises AmqpError if there is no such event log, or no answer."""

    def keys(self) -> list[str]:
        """The groups with links of this process, as `cluster/topic/group`."""

    async def show(self, scope: str, address: str, group: str) -> Mapping[str, object]: ...
    async def rebalance(self, scope: str, address: str, group: str) -> Mapping[str, object]: ...
    async def show_key(self, key: str) -> Mapping[str, object]: ...
    async def rebalance_key(self, key: str) -> Mapping[str, object]: ...


class AdminSource(Protocol):
    """The running gateway, as the admin API sees and changes it."""

    @property
    def identity(self) -> Identity: ...
    @property
    def connections(self) -> Roster[Connection]: ...
    @property
    def waits(self) -> CreditWaits: ...
    @property
    def rates(self) -> Rates: ...
    @property
    def streams(self) -> ChangeStreams: ...
    def watched(self) -> None:
        """Somebody wants rates of messages."""
    @property
    def refusals(self) -> RecentRefusals: ...
    @property
    def policy(self) -> CompiledPolicy: ...
    @property
    def policy_state(self) -> PolicyState: ...
    @property
    def clusters(self) -> Mapping[str, ShownCluster]: ...
    @property
    def groups(self) -> GroupAnswers: ...
    @property
    def steering(self) -> Steering | None: ...
    def bridges(self) -> Iterable[tuple[Key, BridgeWorker]]: ...
    def connectors(self) -> Iterable[tuple[Key, Connector]]: ...
    def status(self) -> Document: ...
    def unsettled(self) -> int: ...
    def audit(self, who: str, action: str, **about: object) -> None:
        """Log a change and who made it."""
