"""Moving subscriptions to another gateway: what an export contains, and what an import restores (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.model.strict_json import MAX_DEPTH, pointer, read_object
from bridges.cloudevents.model.values import InvalidSubscription, Json, Mistake
from bridges.cloudevents.reading.start_offsets import DeliveryProgress, StartOffsets
from bridges.kafka.tap import LogStart

NOT_DECRYPTED: Final = Mistake(
    "/secrets", "needs a key of the exporting gateway, and the same scope, manager, id and user; or give them anew"
)
_MEMBERS: Final = frozenset(("subscription", "positions", "progress", "secrets"))
_STOPPED: Final = (Reason.GONE, Reason.REFUSALS, Reason.UNREACHABLE, Reason.OPERATOR, Reason.MAX_EVENTS)
"""Reasons that hold at another gateway, too; that one finds out about the others itself."""


class ImportedSubscription(NamedTuple):
    """The parts of an import."""

    object: Mapping[str, Json]
    positions: Mapping[str, LogStart]
    """By address; those that are missing begin where `config.start` says."""
    progress: DeliveryProgress
    secrets: str | None
    """Encrypted; see `stored_form.export_secrets`."""

    @property
    def id(self) -> str:
        """The id of the object; empty if it has none."""
        return str(self.object.get("id", ""))

    @property
    def body(self) -> bytes:
        """The object, as Create takes it."""
        return json.dumps(self.object).encode()


def export_document(subscription: Mapping[str, Json], status: SubscriptionStatus) -> dict[str, Json]:
    """An export without secrets: the object, its positions, and its progress if there is any to tell."""
    found: dict[str, Json] = {"subscription": dict(subscription), "positions": _positions_document(status)}
    progress = _progress_document(status)
    return {**found, "progress": progress} if progress else found


def _positions_document(status: SubscriptionStatus) -> dict[str, Json]:
    """Where another gateway has to go on: everything before these offsets is done."""
    return {
        address: {"log": status.logs[address], "offsets": {str(each): f"{at:020d}" for each, at in sorted(ats.items())}}
        for address, ats in status.positions.items()
    }


def _progress_document(status: SubscriptionStatus) -> dict[str, Json]:
    """What another gateway has to know beside the positions; empty if there is nothing."""
    found: dict[str, Json] = {"delivered": status.delivered} if status.delivered else {}
    return {**found, "stopped": status.reason.value} if status.reason in _STOPPED else found


def read_import(body: bytes) -> ImportedSubscription:
    """Read the body of an import; raises InvalidSubscription."""
    found = read_object(body, MAX_DEPTH + 1)
    text = "unknown; an import has subscription, positions, progress and secrets"
    wrong = [Mistake(pointer(name), text) for name in found if name not in _MEMBERS]
    positions, secrets = found.get("positions", {}), found.get("secrets")
    value = found.get("subscription")
    if not isinstance(value, dict):
        wrong.append(Mistake("/subscription", "the object to create"))
    if not isinstance(secrets, str | None):
        wrong.append(Mistake("/secrets", "what an export with secrets has here"))
    try:
        starts = dict(_positions(positions))
    except (ValueError, KeyError, TypeError, AttributeError):
        starts = {}
        wrong.append(Mistake("/positions", "what an export has here: log and offsets by address"))
    progress = _progress(found.get("progress", {}))
    if progress is None:
        wrong.append(Mistake("/progress", "what an export has here: delivered and stopped"))
    if wrong or progress is None or not isinstance(value, dict):
        raise InvalidSubscription(tuple(wrong))
    return ImportedSubscription(value, starts, progress, secrets if isinstance(secrets, str) else None)


def _progress(value: Json) -> DeliveryProgress | None:
    """None if it is not the progress of an export."""
    if not isinstance(value, dict) or value.keys() - {"delivered", "stopped"}:
        return None
    delivered, stopped = value.get("delivered", 0), value.get("stopped")
    if not isinstance(delivered, int) or isinstance(delivered, bool) or not 0 <= delivered < 2**63:
        return None
    reason = next((each for each in _STOPPED if each.value == stopped), None)
    return None if stopped is not None and reason is None else DeliveryProgress(delivered, reason)


def _positions(value: Json) -> Iterator[tuple[str, LogStart]]:
    if not isinstance(value, dict):
        raise TypeError("positions have to be an object")
    for address, at in value.items():
        if not isinstance(at, dict) or not isinstance(at["offsets"], dict):
            raise TypeError("the positions of a stream have to be an object")
        yield address, LogStart(str(at["log"]), {int(each): int(str(offset)) for each, offset in at["offsets"].items()})


def restored_offsets(
    starts: StartOffsets, ends: StartOffsets, imported: ImportedSubscription
) -> StartOffsets:
    """The start offsets of an import: those of its positions, else `starts`; raises InvalidSubscription.

    `ends` are those of the streams. Positions in another log mean nothing here, and none lies beyond its end.
    """
    positions = imported.positions
    wrong = list(_misplaced(ends, positions))
    if wrong:
        raise InvalidSubscription(tuple(wrong))
    streams = {
        address: log._replace(offsets={**log.offsets, **positions[address].offsets}) if address in positions else log
        for address, log in starts.streams.items()
    }
    return starts._replace(streams=streams, progress=imported.progress)


def _misplaced(starts: StartOffsets, positions: Mapping[str, LogStart]) -> Iterator[Mistake]:
    for address, at in positions.items():
        log, where = starts.streams.get(address), pointer("positions", address)
        if log is None:
            yield Mistake(where, "not a stream of this subscription")
        elif log.identity != at.identity:
            yield Mistake(where, "positions in another log; leave them out to begin where config.start says")
        else:
            for number, offset in at.offsets.items():
                end = log.offsets.get(number)
                if end is None or not 0 <= offset <= end:
                    yield Mistake(f"{where}/offsets/{number}", "the partition has no such offset")
