"""What a process knows of a manager's subscriptions, and what it tells delivery: changes here, elsewhere, by reload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from functools import cache

import pytest

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.manager.access import may_create
from bridges.cloudevents.manager.bindings.routes import expected_revisions, route_of
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.consents import PendingConsent
from bridges.cloudevents.manager.envelope import Envelope, decode_envelope, encode_envelope
from bridges.cloudevents.manager.registry import SubscriptionRegistry
from bridges.cloudevents.model.values import SinkProtocol
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from gateway.state.subscriptions.store import StoredSubscription, SubscriptionLimits, SubscriptionsUnavailable
from policies.subscriptions import ManagerRules, manager_rules
from tests.support.gateway.policy import load_text
from tests.support.gateway.process import PATIENCE

POLICY = """
gateway: {{id: gw, http: off}}
kafka: {{main: {{bootstrap: "127.0.0.1:1"}}}}
scopes:
  edge:
    addresses: [{{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}]
    access: [{{who: {who}, may: subscribe, on: "events/**"}}]
    subscriptions:
      - name: orders
        events: events/orders
        sinks: [{{protocol: http, to: "https://{host}", handshake: off}}]
"""
NAME = "edge/orders"


def rules(who: str = "billing", host: str = "hooks.example") -> ManagerRules:
    """The rules of the manager of a policy."""
    return manager_rules(load_text(POLICY.format(who=who, host=host)))[0]


def form(given: ManagerRules | None = None) -> SubscriptionCodec:
    return SubscriptionCodec(given or rules(), None, frozenset(SinkProtocol))


class RecordingDelivery:
    """Delivery that remembers what it is told."""

    def __init__(self) -> None:
        self.puts: list[tuple[str, int, Reason | None]] = []
        self.removed: list[str] = []
        self.renewed: list[tuple[str, int]] = []

    def set_applied(self, revision: int) -> None:
        """Not of interest here."""

    def renew(self, subscription: Subscription, revision: int) -> None:
        self.renewed.append((subscription.id, revision))

    async def put(
        self,
        subscription: Subscription,
        revision: int,
        starts: StartOffsets,
        hold: Reason | None = None,
        edition: int | None = None,
    ) -> None:
        await asyncio.sleep(0)
        self.puts.append((subscription.id, revision, hold))

    async def remove(self, id: str) -> None:
        self.removed.append(id)

    async def status(self, id: str) -> SubscriptionStatus | None:
        return None

    async def resume(self, id: str) -> bool:
        return False

    async def send_test(self, id: str, event: CloudEvent) -> Answer | None:
        return None


@cache  # reading its policy takes longer than all that is done with it
def form_of_documents() -> SubscriptionCodec:
    return form()


def document(id: str, consent: PendingConsent | None = None) -> bytes:
    body = json.dumps({"id": id, "protocol": "HTTP", "sink": "https://hooks.example/x"}).encode()
    parsed = form_of_documents().parse(body, id=None, owner="billing", now_ms=0)
    return encode_envelope(Envelope(StartOffsets("incarnation", {}), form_of_documents().dump(parsed), None, consent))


class Shared:
    """A store, and the book of one process."""

    def __init__(self) -> None:
        self.store = MemorySubscriptionStore()
        self.told = RecordingDelivery()
        self.book = SubscriptionRegistry(NAME, self.store, form(), self.told)

    async def made(self, id: str, consent: PendingConsent | None = None) -> StoredSubscription:
        return await self.store.create(NAME, id, "billing", document(id, consent), SubscriptionLimits(1000, 1000))


async def test_changes_of_other_processes_are_taken_over() -> None:
    here = Shared()
    one, two = await here.made("one"), await here.made("two")
    await here.book.refresh()
    assert sorted(here.told.puts) == [("one", one.revision, None), ("two", two.revision, None)]
    await here.store.delete(NAME, "one", one.revision)
    changed = await here.store.replace(NAME, "two", document("two"), two.revision)
    await here.book.refresh()
    assert here.told.puts[2:] == [("two", changed.revision, None)]
    assert here.told.removed == ["one"]
    await here.book.refresh()
    assert len(here.told.puts) == 3  # nothing new, nothing told


async def test_it_catches_up_with_changes_that_are_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Shared()
    one = await here.made("one")
    assert await here.book.caught_up(), "not read at all before"
    changed = await here.store.replace(NAME, "one", document("one"), one.revision)
    assert await here.book.caught_up()
    assert here.told.puts == [("one", one.revision, None), ("one", changed.revision, None)]

    async def away(manager: str) -> int:
        raise SubscriptionsUnavailable

    monkeypatch.setattr(here.store, "revision", away)
    assert not await here.book.caught_up()


async def test_an_old_reading_brings_back_nothing_that_was_deleted_meanwhile() -> None:
    here = Shared()
    one = await here.made("one")
    await here.book.apply(one)
    await here.store.delete(NAME, "one", one.revision)
    await here.book.remove("one")
    await here.book.apply(one)  # as a reading does that began before
    assert here.book.get("one") is None
    again = await here.made("one")
    await here.book.apply(again)
    assert here.told.puts == [("one", one.revision, None), ("one", again.revision, None)]


async def test_the_older_of_two_revisions_does_not_come_last() -> None:
    here = Shared()
    one = await here.made("one")
    two = await here.store.replace(NAME, "one", document("one"), one.revision)
    await asyncio.gather(here.book.apply(two), here.book.apply(one))
    assert here.told.puts == [("one", two.revision, None)]


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
async def test_an_older_copy_applies_also_if_it_has_been_changed_since(changes: int) -> None:
    """A replica that is promoted has not all; its revisions may have come as far again before it is read."""
    here, copy = Shared(), MemorySubscriptionStore()
    limits = SubscriptionLimits(1000, 1000)
    old = await here.made("one")
    await here.made("two")
    await here.book.refresh()
    for id in ("one", "two"):
        await copy.create(NAME, id, "billing", document(id), limits)
    lost = await here.store.replace(NAME, "one", document("one"), old.revision)
    await here.made("three")
    await here.book.refresh()
    here.book._store, here.told.puts = copy, []
    for number in range(changes):
        await copy.create(NAME, f"new-{number}", "billing", document(f"new-{number}"), limits)
    await here.book.refresh()
    assert lost.revision == 3
    assert ("one", old.revision, None) in here.told.puts
    assert [each.stored.revision for each in here.book] == [*range(3, 3 + changes), old.revision, 2]
    assert here.told.removed == ["three"], "a removal deletes the position"


async def test_what_cannot_be_read_keeps_nothing_else_back() -> None:
    here = Shared()
    await here.store.create(NAME, "broken", "billing", b"{}", SubscriptionLimits(1000, 1000))
    await here.made("whole")
    await here.book.refresh()
    assert [each[0] for each in here.told.puts] == ["whole"]


@pytest.mark.parametrize("changed", [rules(who="shipping"), rules(host="other.example")])
async def test_a_reload_suspends_what_it_does_not_allow_and_lets_it_go_on(changed: ManagerRules) -> None:
    here = Shared()
    await here.book.apply(await here.made("one"))
    await here.book.configure(form(changed), same_rules=changed == rules())
    await here.book.configure(form(), same_rules=changed == rules())
    assert [hold for _, _, hold in here.told.puts] == [None, Reason.POLICY, None]


async def test_a_reload_that_changes_nothing_tells_nothing() -> None:
    here = Shared()
    await here.book.apply(await here.made("one"))
    await here.book.configure(form(), same_rules=True)
    assert len(here.told.puts) == 1
    await here.book.configure(form(), same_rules=False)
    assert len(here.told.puts) == 2


async def test_a_consent_that_is_awaited_holds_delivery() -> None:
    here = Shared()
    await here.book.apply(await here.made("one", PendingConsent("0" * 64, 1)))
    assert here.told.puts[0][2] is Reason.CONSENT


def test_an_envelope_is_what_was_put_into_it() -> None:
    envelope = decode_envelope(document("ü", PendingConsent("a" * 64, 7)))
    assert decode_envelope(encode_envelope(envelope)) == envelope
    for wrong in (b"", b"{}", b"[]", b'{"starts": {}, "granted": null, "consent": null, "object": {}}'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            decode_envelope(wrong)


@pytest.mark.parametrize(
    ("header", "allowed", "refused"),
    [
        (None, [], []),
        ("*", [0, 7], []),
        ('"7"', [7], [8]),
        ('"7", "9"', [7, 9], [8]),
        ('W/"7"', [], [7]),
        ("7", [], [7]),
    ],
)
def test_if_match(header: str | None, allowed: list[int], refused: list[int]) -> None:
    expected = expected_revisions(header)
    assert (expected is None) is (header is None)
    assert all(each in (expected or ()) for each in allowed)
    assert not any(each in (expected or ()) for each in refused)


@pytest.mark.parametrize(
    ("match", "none_match", "allowed", "refused"),
    [
        (None, "*", [], [1, 17]),
        (None, '"17"', [1, 18], [17]),
        (None, 'W/"17", "3"', [1], [3, 17]),
        ('"17", "18"', '"17"', [18], [1, 17]),
        ("*", "no tag", [1, 17], []),
    ],
)
def test_if_none_match(match: str | None, none_match: str, allowed: list[int], refused: list[int]) -> None:
    expected = expected_revisions(match, none_match)
    assert expected is not None
    assert [each in expected for each in [*allowed, *refused]] == [True] * len(allowed) + [False] * len(refused)
    assert may_create(expected) is (match is None)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (b"/s", ("collection", "")),
        (b"/s/", ("collection", "")),
        (b"/s/a%20b", ("subscription", "a b")),
        (b"/s/a%2Fb", ("subscription", "a/b")),
        (b"/s/a/status", ("status", "a")),
        (b"/s/a/b/c", ("b/c", "a")),
        (b"/s/%ff", None),
        (b"/s/a?x=1", ("subscription", "a")),
    ],
)
def test_routes_are_found_in_the_undecoded_path(path: bytes, found: tuple[str, str] | None) -> None:
    assert route_of(path, "/s") == found


class CountingStore(MemorySubscriptionStore):
    """Counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.some = 0, list[str]()

    async def load(self, manager: str) -> tuple[int, Mapping[str, StoredSubscription]]:
        self.whole += 1
        return await super().load(manager)

    async def load_some(self, manager: str, ids: Collection[str]) -> Mapping[str, StoredSubscription]:
        self.some += ids
        return await super().load_some(manager, ids)


class Following(Shared):
    """A book that follows its store, until `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.counting = CountingStore()
        self.applied = 0
        self.told.set_applied = self._set_applied  # type: ignore[method-assign]
        self.book = SubscriptionRegistry(NAME, self.store, form(), self.told)

    def _set_applied(self, revision: int) -> None:
        self.applied = revision

    async def follow(self) -> asyncio.Task[None]:
        async def nothing() -> None:
            """Each round."""

        task = asyncio.create_task(self.book.run(nothing))
        await self.until_applied()
        return task

    async def until_applied(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.book.loaded or self.applied != await self.store.revision(NAME):  # noqa: ASYNC110
                await asyncio.sleep(0)


@pytest.mark.parametrize("many", [3, 300])
async def test_a_change_reads_nothing_but_what_changed(many: int) -> None:
    here = Following()
    for number in range(many):
        await here.made(f"s{number:03}")
    task = await here.follow()
    assert (here.counting.whole, here.counting.some) == (1, [])
    one = await here.made("one")
    await here.until_applied()
    await here.store.replace(NAME, "one", document("one"), one.revision)
    known = here.book.get("s001")
    assert known is not None
    await here.store.delete(NAME, "s001", known.stored.revision)
    await here.until_applied()
    assert (here.counting.whole, len(here.counting.some)) == (1, 3)
    assert (here.told.removed, here.told.puts[-1][0]) == (["s001"], "one")
    assert [each.stored.id for each in here.book.after("s002")] == [
        f"s{number:03}" for number in range(3, many)
    ]
    assert [each.stored.id for each in here.book][:2] == ["one", "s000"]
    task.cancel()


async def test_after_a_gap_the_whole_store_is_read() -> None:
    here = Following()
    await here.made("a")
    task = await here.follow()
    followers = here.store._of(NAME).followers
    (follower,) = followers.items()
    followers.clear()
    await here.made("b")
    followers.update([follower])
    await here.made("c")
    await here.until_applied()
    assert [each.stored.id for each in here.book] == ["a", "b", "c"]
    assert (here.counting.whole, here.counting.some) == (2, [])
    task.cancel()


async def test_a_change_that_is_never_announced_is_found_by_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridges.cloudevents.manager.registry._REFRESH_INTERVAL", 0.01)
    here = Following()
    await here.made("a")
    task = await here.follow()
    here.store._of(NAME).followers.clear()
    await here.made("b")
    await here.until_applied()
    assert [each.stored.id for each in here.book] == ["a", "b"]
    assert here.counting.whole == 2
    task.cancel()


async def test_one_subscription_can_be_read_alone() -> None:
    here = Following()
    one, two = await here.made("one"), await here.made("two")
    await here.book.refresh()
    await here.store.delete(NAME, "one", one.revision)
    changed = await here.store.replace(NAME, "two", document("two"), two.revision)
    await here.book.refresh_one("one")
    await here.book.refresh_one("two")
    assert (here.told.removed, here.told.puts[-1]) == (["one"], ("two", changed.revision, None))
    assert (here.counting.whole, here.counting.some) == (1, ["one", "two"])


async def test_a_revision_that_delivery_made_is_what_it_continues_with() -> None:
    shared = Shared()
    made = await shared.store.create(NAME, "a", "billing", document("a"), SubscriptionLimits(9, 9))
    await shared.book.load()
    await shared.book.record(await shared.store.replace(NAME, "a", document("a"), made.revision))
    assert shared.told.renewed == [("a", 2)]
    assert shared.told.puts == [("a", 1, None)], "it is not restarted"
