"""Changes that the store has announced and that are not applied yet (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.state.subscriptions.store import Change


class PendingChanges:
    """Says which subscriptions to read again; at first, after a gap and when the store cannot tell, all of them."""

    def __init__(self) -> None:
        self._announced: Final[dict[int, str]] = {}
        self._any = True

    def add(self, changes: Sequence[Change] | None) -> None:
        """These were announced; None: anything may have changed."""
        if changes is None:
            self._any = True
        else:
            self._announced.update((change.revision, change.id) for change in changes)

    def take(self, applied: int) -> Mapping[str, int] | None:
        """The ids that changed after the revision `applied`, with their last revision; None: read the whole store.

        They are not pending any more.
        """
        newer = sorted(revision for revision in self._announced if revision > applied)
        changed = {self._announced[revision]: revision for revision in newer}
        contiguous = not newer or newer[-1] - applied == len(newer)
        everything = self._any or not contiguous
        self._announced.clear()
        self._any = False
        return None if everything else changed
