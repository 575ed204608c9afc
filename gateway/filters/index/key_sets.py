"""Sets of keys that mostly have one member: tuples up to four, which take a fifth of the memory of a dict. Pure.

Both forms are iterated in the order of insertion.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
KeySet = tuple[K, ...] | dict[K, None]
_FEW = 4


def with_key(keys: KeySet[K], key: K) -> KeySet[K]:
    """The set with `key`; a dict is changed."""
    if isinstance(keys, dict):
        keys[key] = None
        return keys
    if key in keys:
        return keys
    return (*keys, key) if len(keys) < _FEW else dict.fromkeys((*keys, key))


def without_key(keys: KeySet[K], key: K) -> KeySet[K]:
    """The set without `key`; a dict is changed. Raises KeyError if `key` is no member."""
    if isinstance(keys, dict):
        del keys[key]
        return keys
    if key not in keys:
        raise KeyError(key)
    return tuple(each for each in keys if each is not key and each != key)
