"""Which events the notes of a manifest explain as removed."""

from __future__ import annotations

from bridges.spark.archive.manifest.commits import ERASE, EXPIRE, Commit
from bridges.spark.archive.removals import Removals, hashed

DAY = 86_400_000


def test_dates_and_keys_are_those_of_their_address() -> None:
    removals = Removals()
    note = {"by": "x", "salt": "ab" * 16, "key_sha256": hashed("ab" * 16, b"k")}
    removals.add(Commit(1, "", (), (), kind=EXPIRE, replaced=("address=a%2Fb/date=1970-01-03",)))
    removals.add(Commit(2, "", (), (), kind=ERASE, replaced=("address=c/date=1970-01-03",), note=note))
    assert removals.covers("a/b", None, 2 * DAY)
    assert removals.covers("a/b", b"k", 3 * DAY - 1)
    assert not removals.covers("a/b", b"k", 3 * DAY)
    assert not removals.covers("c", b"other", 2 * DAY)
    assert not removals.covers("c", None, 2 * DAY)
    assert not removals.covers("a/b", b"k", 2**62)
    assert removals.covers("c", b"k", 2**62)


def test_other_commits_explain_nothing() -> None:
    removals = Removals()
    removals.add(Commit(1, "", (), (), replaced=("address=c/date=1970-01-01",), note={"salt": "ab", "key_sha256": ""}))
    assert not removals.covers("c", b"k", 0)
