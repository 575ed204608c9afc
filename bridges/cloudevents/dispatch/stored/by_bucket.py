"""A mapping by subscription id that also knows its buckets, so that no walk over all ids is needed to find them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping
from typing import Final, TypeVar

from bridges.cloudevents.dispatch.stored.checkpoint_record import bucket_of

T = TypeVar("T")


class ByBucket(MutableMapping[str, T]):
    """Values by id; each id is hashed once, when it is added."""

    def __init__(self) -> None:
        self._values: Final[dict[str, tuple[T, int]]] = {}
        self._ids: Final[dict[int, dict[str, None]]] = {}

    def __getitem__(self, id: str) -> T:
        return self._values[id][0]

    def __setitem__(self, id: str, value: T) -> None:
        known = self._values.get(id)
        bucket = bucket_of(id) if known is None else known[1]
        self._values[id] = value, bucket
        self._ids.setdefault(bucket, {})[id] = None

    def __delitem__(self, id: str) -> None:
        _, bucket = self._values.pop(id)
        ids = self._ids[bucket]
        del ids[id]
        if not ids:
            del self._ids[bucket]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def buckets(self) -> Collection[int]:
        """The buckets that have an id."""
        return self._ids.keys()

    def ids_in(self, buckets: Collection[int]) -> list[str]:
        """The ids of these buckets."""
        return [id for bucket in buckets for id in self._ids.get(bucket, ())]
