"""A renewed token is stored in the version that there is: the old one may be good for one use only (CE-3.2.1-14)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.envelope import Envelope, encode_envelope
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.manager.renewal import store_renewed
from bridges.cloudevents.model.values import RefreshToken, SinkProtocol
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.stored_form import SubscriptionKeys
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from gateway.state.subscriptions.store import Changed, StoredSubscription, SubscriptionLimits
from tests.support.cloudevents.objects import HTTP, NOW_MS, REFRESH, RULES, parsed
from tests.unit.bridges.cloudevents.manager.test_reencryption import NoDelivery

NAME, ID = RULES.full_name, "s"
KEYS = SubscriptionKeys(KeyRing("a", {"a": SigningSecret(b"1" * 32)}), lambda: NOW_MS)
CODEC = SubscriptionCodec(RULES, KEYS, list(SinkProtocol))


class Manager:
    """A store with one subscription, and the registry of a gateway that delivers it."""

    def __init__(self) -> None:
        self.store, self.delivery = MemorySubscriptionStore(), NoDelivery()
        self.registry = SubscriptionRegistry(NAME, self.store, CODEC, self.delivery)  # type: ignore[arg-type]

    async def start(self) -> RefreshToken:
        await self.store.create(NAME, ID, "billing", document({**REFRESH}), SubscriptionLimits(9, 9))
        await self.registry.load()
        return token(self.entry)

    @property
    def entry(self) -> RegistryEntry:
        entry = self.registry.get(ID)
        assert entry is not None
        return entry

    async def renew(self, before: RefreshToken) -> StoredSubscription:
        renewed = RefreshToken("new", NOW_MS + 7_200_000, "one-use-2", before.endpoint)
        return await store_renewed(NAME, ID, self.registry, self.store, CODEC, before, renewed)

    async def put_elsewhere(self, credential: dict[str, object], revision: int) -> StoredSubscription:
        """Another gateway answers a PUT, which this one has not heard of yet."""
        return await self.store.replace(NAME, ID, document(credential, edition=2, types=["changed"]), revision)


def document(credential: dict[str, object], edition: int = 1, **more: object) -> bytes:
    subscription = parsed({**HTTP, "id": ID, "sinkcredential": credential, **more})
    return encode_envelope(Envelope(StartOffsets("i", {}), CODEC.dump(subscription), edition=edition))


def token(entry: RegistryEntry) -> RefreshToken:
    assert isinstance(entry.subscription.credential, RefreshToken)
    return entry.subscription.credential


@pytest.mark.row("CE-3.2.1-14")
async def test_a_put_at_another_gateway_during_a_renewal_loses_neither() -> None:
    manager = Manager()
    before = await manager.start()
    changed = await manager.put_elsewhere({**REFRESH}, manager.entry.stored.revision)
    stored = await manager.renew(before)
    assert stored.revision > changed.revision
    await manager.registry.record(stored)
    assert manager.entry.edition == 1, "the change of the owner is not in force yet"
    await manager.registry.refresh()
    assert (token(manager.entry).refresh_token, manager.entry.edition) == ("one-use-2", 2)
    assert manager.entry.subscription.document["types"] == ["changed"]


async def test_a_token_that_the_owner_has_given_meanwhile_is_kept() -> None:
    manager = Manager()
    before = await manager.start()
    await manager.put_elsewhere({**REFRESH, "refreshtoken": "given"}, manager.entry.stored.revision)
    with pytest.raises(Changed):
        await manager.renew(before)
    await manager.registry.refresh()
    assert token(manager.entry).refresh_token == "given"


async def test_a_deleted_subscription_gets_no_token() -> None:
    manager = Manager()
    before = await manager.start()
    await manager.store.delete(NAME, ID, manager.entry.stored.revision)
    with pytest.raises(Changed):
        await manager.renew(before)
