"""The store of one process: uses are taken once, values expire, and a full store says so instead of forgetting."""

from __future__ import annotations

from gateway.state.counters.memory_store import MemoryCounterStore


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(store: MemoryCounterStore, key: str, claim: str, limit: int = 1, ttl_ms: int = 1000) -> bool | None:
    got: list[bool | None] = []
    store.acquire(key, claim, limit, ttl_ms, got.append)
    return got[0]


def put(store: MemoryCounterStore, key: str, value: bytes, ttl_ms: int = 1000) -> bool:
    got: list[bool] = []
    store.put(key, value, ttl_ms, got.append)
    return got[0]


def fetched(store: MemoryCounterStore, key: str) -> bytes | None:
    got: list[bytes | None] = []
    store.get(key, got.append)
    return got[0]


def test_uses_are_taken_until_there_are_none() -> None:
    store = MemoryCounterStore(Clock())
    assert [counted(store, "k", claim, 2) for claim in ("a", "b", "c", "a")] == [True, True, False, True]
    assert counted(store, "other", "c", 2) is True
    assert counted(store, "nothing", "a", 0) is False


def test_a_claim_that_is_given_back_frees_one_use() -> None:
    store = MemoryCounterStore(Clock())
    assert counted(store, "k", "a") is True
    store.release("k", "b")
    store.release("no such", "a")
    assert counted(store, "k", "b") is False
    store.release("k", "a")
    store.release("k", "a")
    assert counted(store, "k", "b") is True
    assert counted(store, "k", "c") is False


def test_what_has_expired_is_gone() -> None:
    clock = Clock()
    store = MemoryCounterStore(clock)
    assert counted(store, "k", "a")
    assert put(store, "v", b"value")
    assert fetched(store, "v") == b"value"
    clock.now = 1.1
    assert fetched(store, "v") == b""
    assert counted(store, "k", "b") is True


def test_a_full_store_takes_nothing_new_and_keeps_what_it_has() -> None:
    clock = Clock()
    store = MemoryCounterStore(clock, budget=2000)
    taken = [counted(store, f"k{number}", "a") for number in range(10)]
    assert taken == [True] * taken.count(True) + [None] * taken.count(None)
    assert 0 < taken.count(True) < 10
    assert put(store, "v", b"x" * 1000) is False
    assert counted(store, "k0", "b") is False
    assert store.counts() == {"full": taken.count(None) + 1}
    clock.now = 2.0
    assert put(store, "v", b"x" * 1000)
    assert fetched(store, "k0") == b""


def test_nothing_leaks_over_many_lives() -> None:
    clock = Clock()
    store = MemoryCounterStore(clock, budget=5000)
    for number in range(200):
        clock.now += 1.1
        assert counted(store, f"k{number}", "a", 2)
        assert counted(store, f"k{number}", "b", 2)
        store.release(f"k{number}", "a")
        assert put(store, f"v{number}", b"x" * 1000)
