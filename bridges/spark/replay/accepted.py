"""The progress of a replay to an AMQP address: which events the peer has accepted (decision 125).

A peer may refuse one event of a chunk, or go away, when it has accepted later ones: these are noted one by one, so that
the next run does not send them again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from bridges.spark.archive.storage.paths import StoragePath, write_whole
from bridges.spark.errors import PipelineError, sentence
from gateway.amqp.link.outcomes import ACCEPTED, Outcome


class _LastRun(NamedTuple):
    about: str = ""
    run: str = ""
    next_offsets: Mapping[int, int] = {}
    later: Mapping[int, frozenset[int]] = {}


class AcceptedEvents:
    """The events that were accepted, in a file beside the archive. One run of a replay has it at a time, the last."""

    def __init__(self, path: StoragePath, about: str) -> None:
        """Take the replay over from an earlier run; `about` names what is sent where.

        Raises `PipelineError` if the file is of another replay, cannot be read, or cannot be written.
        """
        self._path: Final = path
        self._about: Final = about
        self._run: Final = uuid.uuid4().hex
        found = _read(path)
        if found.about not in ("", about):  # older versions did not note it
            raise PipelineError(f"{path} is of another replay ({found.about}), not of {about}: use another --name")
        self._next_offsets: Final = dict(found.next_offsets)
        self._later: Final = {partition: set(offsets) for partition, offsets in found.later.items()}
        self._write()  # fails now if it cannot be written: without it, events would be sent again

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """By partition of the archive: everything before was accepted."""
        return self._next_offsets

    def left(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without those that were accepted out of turn."""
        if not any(self._later.values()):
            return rows
        return rows.filter(pa.array([offset not in self._later.get(number, ()) for number, offset in _places(rows)]))

    def count(self, rows: pa.RecordBatch, outcomes: Sequence[Outcome | None]) -> None:
        """Note what was accepted of rows that were sent. Raises `PipelineError`."""
        waiting = set[int]()
        for (partition, offset), outcome in zip(_places(rows), outcomes, strict=True):
            if outcome is not ACCEPTED:
                waiting.add(partition)
            elif partition in waiting:
                self._later.setdefault(partition, set()).add(offset)
            else:
                self._next_offsets[partition] = offset + 1
        for partition, later in self._later.items():
            later -= {offset for offset in later if offset < self._next_offsets.get(partition, 0)}
        if _read(self._path).run != self._run:
            raise PipelineError(f"another run of the replay {self._path.name.removesuffix('.json')} has taken over")
        self._write()

    def _write(self) -> None:
        later = {number: sorted(offsets) for number, offsets in self._later.items() if offsets}
        text = json.dumps({"of": self._about, "run": self._run, "next": self._next_offsets, "later": later})
        try:
            self._path.parent.mkdir(exist_ok=True)
            write_whole(self._path, text)
        except OSError as error:
            raise PipelineError(f"the progress in {self._path} cannot be stored: {sentence(error)}") from None


def _read(path: StoragePath) -> _LastRun:
    """What the last run has stored. Raises `PipelineError`."""
    try:
        found = json.loads(path.read_bytes())
        if "next" not in found:  # of an older version
            return _LastRun(next_offsets={int(partition): int(offset) for partition, offset in found.items()})
        later = {int(partition): frozenset(map(int, offsets)) for partition, offsets in found["later"].items()}
        offsets = {int(partition): int(offset) for partition, offset in found["next"].items()}
        return _LastRun(str(found["of"]), str(found["run"]), offsets, later)
    except FileNotFoundError:
        return _LastRun()
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise PipelineError(f"{path} does not contain the progress of a replay: remove it to start again") from None


def _places(rows: pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True))
