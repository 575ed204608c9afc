"""Admits a checked subscription: its sink allows it, its position is found, and the document to store is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bridges.cloudevents.manager.consents import consent_address
from bridges.cloudevents.manager.dependencies import ManagerDependencies
from bridges.cloudevents.manager.envelope import Envelope, encode_envelope
from bridges.cloudevents.manager.errors import RETRY_AFTER, ApiError, ErrorCode, invalid
from bridges.cloudevents.manager.proposals import ProposalValidator
from bridges.cloudevents.manager.registry import RegistryEntry
from bridges.cloudevents.model.values import FromLatest, InvalidSubscription
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.reading.transfer import ImportedSubscription, restored_offsets
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from policies.subscriptions import ManagerRules

LOG: Final = get_logger(__name__)


class SubscriptionAdmission:
    """What a manager asks for before it stores a subscription."""

    def __init__(self, rules: ManagerRules, dependencies: ManagerDependencies, proposals: ProposalValidator) -> None:
        self._rules: Final = rules
        self._dependencies: Final = dependencies
        self._proposals: Final = proposals

    async def admit(
        self,
        subscription: Subscription,
        entry: RegistryEntry | None,
        imported: ImportedSubscription | None = None,
    ) -> tuple[bytes, bool]:
        """The document to store, and whether consent is pending; raises ApiError if the sink is not allowed."""
        url, address = self._dependencies.public_url, None
        if url is not None:
            address = consent_address(url + self._rules.path, subscription.id, self._dependencies.now_ms())
        grant = await self._proposals.check_sink(subscription, entry, None if address is None else address.url)
        starts = await self._find_start_offsets(subscription, None if entry is None else entry.start_offsets)
        if imported is not None:
            starts = await self._restored(subscription, starts, imported)
        pending = address.pending if grant.pending and address is not None else None
        edition = 1 if entry is None else entry.edition + 1
        envelope = Envelope(starts, self._dependencies.codec.dump(subscription), grant.rate, pending, edition)
        return encode_envelope(envelope), pending is not None

    async def _restored(
        self, subscription: Subscription, starts: StartOffsets, imported: ImportedSubscription
    ) -> StartOffsets:
        """The start offsets of an import."""
        latest = replace(subscription, config=subscription.config._replace(start=FromLatest()))
        ends = await self._find_start_offsets(latest, None)
        try:
            return restored_offsets(starts, ends, imported)
        except InvalidSubscription as error:
            raise invalid(error.mistakes) from None

    async def _find_start_offsets(self, subscription: Subscription, entry: StartOffsets | None) -> StartOffsets:
        try:
            return await self._dependencies.find_start_offsets(subscription, entry)
        except InvalidSubscription as error:
            raise invalid(error.mistakes) from None
        except AmqpError as error:
            LOG.warning("event streams cannot be read", manager=self._rules.full_name, error=str(error))
            raise ApiError(
                ErrorCode.UNAVAILABLE, "the event streams cannot be read now; try again", retry_after=RETRY_AFTER
            ) from None
