"""A rotation of keys: what an old key sealed is sealed again, so that the old key can go (CE-3.2.1-14)."""

from __future__ import annotations

import asyncio

import pytest

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.consents import PendingConsent
from bridges.cloudevents.manager.envelope import Envelope, decode_envelope, encode_envelope
from bridges.cloudevents.manager.reencryption import reencrypt_secrets
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.model.values import PlainCredential, SinkProtocol
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.stored_form import SubscriptionKeys
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from gateway.state.subscriptions.store import StoredSubscription, SubscriptionLimits
from tests.support.cloudevents.objects import HTTP, NOW_MS, PLAIN, RULES, parsed

NAME = RULES.full_name
STARTS = StartOffsets("i", {})


class NoDelivery:
    """Notes what is delivered, and why not."""

    def __init__(self) -> None:
        self.held: dict[str, Reason | None] = {}

    async def put(
        self,
        subscription: object,
        revision: int,
        starts: StartOffsets,
        hold: Reason | None = None,
        edition: object = None,
    ) -> None:
        self.held[getattr(subscription, "id", "")] = hold

    async def remove(self, id: str) -> None:
        self.held.pop(id)

    def set_applied(self, revision: int) -> None:
        """Nothing is delivered."""

    def renew(self, subscription: object, revision: int) -> None:
        """Nothing is delivered."""


def form(active: str, **ring: int) -> SubscriptionCodec:
    secrets = {name: SigningSecret(bytes([number]) * 32) for name, number in ring.items()}
    return SubscriptionCodec(RULES, SubscriptionKeys(KeyRing(active, secrets), lambda: NOW_MS), list(SinkProtocol))


async def stored(store: MemorySubscriptionStore, old: SubscriptionCodec) -> None:
    for id, more in (("secret", {"sinkcredential": PLAIN}), ("plain", {})):
        document = encode_envelope(Envelope(STARTS, old.dump(parsed({**HTTP, **more, "id": id}))))
        await store.create(NAME, id, "billing", document, SubscriptionLimits(9, 9))


async def book_of(store: MemorySubscriptionStore, form: SubscriptionCodec) -> tuple[SubscriptionRegistry, NoDelivery]:
    delivery = NoDelivery()
    book = SubscriptionRegistry(NAME, store, form, delivery)  # type: ignore[arg-type]
    await book.load()
    return book, delivery


@pytest.mark.row("CE-3.2.1-14")
def test_the_old_key_is_not_needed_after_a_rotation() -> None:
    async def rotate() -> None:
        store = MemorySubscriptionStore()
        await stored(store, form("a", a=1))
        both = form("b", a=1, b=2)
        book, _ = await book_of(store, both)
        before = {each.stored.id: each.stored.revision for each in book}
        assert await reencrypt_secrets(NAME, book, store, both)
        after = {each.stored.id: each.stored.revision for each in book}
        assert after["secret"] > before["secret"]
        assert after["plain"] == before["plain"]
        assert await reencrypt_secrets(NAME, book, store, both)
        assert {each.stored.id: each.stored.revision for each in book} == after
        later, delivery = await book_of(store, form("b", b=2))
        found = later.get("secret")
        assert found is not None
        assert found.subscription.credential == PlainCredential("u", "s3cret")
        assert delivery.held == {"plain": None, "secret": None}

    asyncio.run(rotate())


def test_what_no_key_opens_stays_as_it_is_and_is_not_delivered() -> None:
    async def lose() -> None:
        store = MemorySubscriptionStore()
        await stored(store, form("a", a=1))
        without = form("b", b=2)
        book, delivery = await book_of(store, without)
        assert await reencrypt_secrets(NAME, book, store, without)
        assert delivery.held == {"plain": None, "secret": Reason.CREDENTIAL}
        again, _ = await book_of(store, form("a", a=1))
        found = again.get("secret")
        assert found is not None
        assert found.subscription.credential == PlainCredential("u", "s3cret")

    asyncio.run(lose())


def test_a_change_of_somebody_else_is_not_overwritten() -> None:
    async def race() -> None:
        store = MemorySubscriptionStore()
        await stored(store, form("a", a=1))
        both = form("b", a=1, b=2)
        book, _ = await book_of(store, both)
        known = book.get("secret")
        assert known is not None
        newer = await store.replace(NAME, "secret", known.stored.document, known.stored.revision)
        assert not await reencrypt_secrets(NAME, book, store, both)
        assert (await store.load(NAME))[1]["secret"] == newer

    asyncio.run(race())


async def test_what_is_sealed_again_keeps_its_edition_and_the_consent_that_is_awaited() -> None:
    consent = PendingConsent("digest", NOW_MS + 1000)
    known = RegistryEntry(StoredSubscription("s", "o", 7, b""), parsed(HTTP), STARTS, 2.0, consent, edition=3)
    again = decode_envelope(encode_envelope(known.envelope(b"{}")))
    assert (again.pending_consent, again.edition, again.granted, again.object) == (consent, 3, 2.0, b"{}")
