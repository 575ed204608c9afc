"""Events removed from an archive on purpose: whole dates, and keys, whose salted hashes are in the manifest. Pure."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from typing import Final

from bridges.spark.archive.manifest.commits import ERASE, EXPIRE, Commit, address_of, date_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Removals:
    """Checks whether an event was removed on purpose, according to the commits."""

    def __init__(self) -> None:
        self._dates: Final[set[tuple[str, str]]] = set()
        self._keys: Final[set[tuple[str, str, str]]] = set()

    def add(self, commit: Commit) -> None:
        """Add a commit of any kind."""
        if commit.kind == EXPIRE:
            self._dates.update((address_of(folder), date_of(folder)) for folder in commit.replaced)
        elif commit.kind == ERASE and "salt" in commit.note:
            addresses = {address_of(folder) for folder in commit.replaced}
            self._keys.update((each, commit.note["salt"], commit.note["key_sha256"]) for each in addresses)

    def covers(self, address: str, key: bytes | None, timestamp_ms: int) -> bool:
        """Whether an event of this key and time was removed."""
        if self._dates and (address, str(_date(timestamp_ms))) in self._dates:
            return True
        own = (each[1:] for each in self._keys if each[0] == address)
        return key is not None and any(hashed(salt, key) == digest for salt, digest in own)


def hashed(salt: str, key: bytes) -> str:
    """The salted hash of an erased key, as the manifest stores it."""
    return hashlib.sha256(bytes.fromhex(salt) + key).hexdigest()


def _date(timestamp_ms: int) -> date | None:
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).date()
    except OverflowError:
        return None
