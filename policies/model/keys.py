"""Keys that sign cookies and rewritten addresses, and how long they are valid (policy section `keys`)."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import Field

from policies.values.base import Flag, Name, Parser, Secret, Strict, parsed
from policies.values.units import Duration, Size, parse_duration

LONGEST_SKEW: Final = 300_000
"""Milliseconds that tokens may be accepted after their expiry."""


def _until(value: object) -> int:
    if isinstance(value, str):
        try:
            end = datetime.fromisoformat(value)
        except ValueError:
            end = None
        if end is not None:
            end = end if end.tzinfo else end.replace(tzinfo=UTC)
            return int(end.timestamp() * 1000)
    raise ValueError("needs a date or a time, like 2026-12-01 or 2026-12-01T12:00:00Z; UTC if no zone is given")


Until = Annotated[int, Parser(_until, {"type": "string", "examples": ["2026-12-01"]})]


class KeyEntry(Secret):
    """One signing key: 32 or more bytes in base64url, made with `scopegate keys new`."""

    until: Until | None = Field(default=None, description="verify with this key until this date; default: always")


class KeysSection(Strict):
    """Keys that sign response-address cookies and rewritten reply addresses."""

    active: Name = Field(description="id of the key that signs")
    ring: dict[Name, KeyEntry] = Field(
        min_length=1, description="key id: where the secret is found; all of them verify, so keys can be rotated"
    )
    expiry: Annotated[Duration, Field(ge=1000)] = parsed(parse_duration, "5m", "how long a response may take")
    skew: Annotated[Duration, Field(le=LONGEST_SKEW)] = parsed(
        parse_duration, "0s", "how long after its expiry a response is still accepted, for clocks that differ; at "
        "most 5m"
    )
    seal: Flag = Field(
        default=False,
        description="true: encrypt cookies, reply addresses and ids, so that other scopes cannot read their contents",
    )
    max_cookie: Annotated[Size, Field(ge=384, le=4096)] | None = Field(
        default=None,
        description="a cookie or reply address longer than this (384B to 4096B) is stored in gateway.state, and a "
        "reference to it is sent instead; default: cookies longer than 4096 bytes are rejected",
    )
