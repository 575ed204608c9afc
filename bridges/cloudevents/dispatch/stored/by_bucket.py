"""A mapping by subscription id that also knows its buckets, so that no walk over all ids is needed to find them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping
from typing import Final, TypeVar

from bridges.cloudevents.dispatch.stored.checkpoint_record import bucket_of

T = TypeVar("T")


class ByBucket(MutableMapping[str, T]):
    """Values by id; an id is hashed when it is added and when it is removed."""

    def __init__(self) -> None:
        self._values: Final[dict[str, T]] = {}
        self._ids: Final[dict[int, dict[str, None]]] = {}

    def __getitem__(self, id: str) -> T:
        return self._values[id]

    def __setitem__(self, id: str, value: T) -> None:
        if id not in self._values:
            self._ids.setdefault(bucket_of(id), {})[id] = None
        self._values[id] = value

    def __delitem__(self, id: str) -> None:
        del self._values[id]
        bucket = bucket_of(id)
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
