"""`config` of a subscription: its sources, where it starts and when it ends. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridges.cloudevents.model.members import (
    InvalidMember,
    Members,
    integer,
    list_value,
    object_value,
    time_value,
)
from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import (
    FromEarliest,
    FromLatest,
    FromOffsets,
    FromTime,
    Json,
    Start,
    SubscriptionConfig,
)

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_OFFSET: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_MAX_PARTITIONS: Final = 1000
_MAX_ADDRESSES: Final = 1000
LATEST: Final = FromLatest()


def config(members: Members) -> SubscriptionConfig:
    """Parse the configuration; expired times and unknown addresses are checked later, with the policy."""
    addresses = members.take("address", _addresses, None)
    start = members.take("start", _start, LATEST)
    if isinstance(start, FromOffsets) and (addresses is None or len(addresses) != 1):
        members.report("start", "offsets of partitions need one address")
    expires = members.take("expires", time_value, None)
    return SubscriptionConfig(addresses, start, expires, members.take("maxevents", integer(1, 2**53), None))


def _addresses(value: Json) -> tuple[str, ...]:
    found = list_value([value] if isinstance(value, str) else value)
    if not 0 < len(found) <= _MAX_ADDRESSES:
        raise InvalidMember(f"an address, or a list of 1 to {_MAX_ADDRESSES}")
    seen: dict[str, None] = {}
    for number, item in enumerate(found):
        if not isinstance(item, str) or not item:
            raise InvalidMember("an address", f"/{number}")
        if item in seen:
            raise InvalidMember("named twice", f"/{number}")
        seen[item] = None
    return tuple(seen)


def _start(value: Json) -> Start:
    if value == "latest":
        return LATEST
    if value == "earliest":
        return FromEarliest()
    if isinstance(value, str):
        try:
            return FromTime(time_value(value))
        except InvalidMember:
            pass
    if isinstance(value, dict):
        return _offsets(value)
    raise InvalidMember('latest, earliest, a time like "2027-01-01T00:00:00Z", or offsets by partition')


def _offsets(value: Json) -> FromOffsets:
    found = object_value(value)
    if not 0 < len(found) <= _MAX_PARTITIONS:
        raise InvalidMember(f"offsets of 1 to {_MAX_PARTITIONS} partitions")
    for name, item in found.items():
        if not _PARTITION.fullmatch(name) or int(name) >= 2**31:
            raise InvalidMember("the number of a partition", pointer(name))
        if not isinstance(item, str) or not _OFFSET.fullmatch(item) or int(item) >= 2**63:
            raise InvalidMember("an offset: text of 1 to 20 digits", pointer(name))
    return FromOffsets({int(name): int(str(item)) for name, item in found.items()})
