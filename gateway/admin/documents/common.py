"""Values of documents: times and texts of peers."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.observability.redaction import redact

Document = dict[str, object]
"""A JSON object."""
MAX_TEXT = 256
"""Characters of a peer's text in a document."""


def moment(seconds: float | None) -> str | None:
    """A time in seconds since 1970 as ISO 8601 in UTC, with milliseconds."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(text: str | None) -> str | None:
    """A peer's text without what works like a secret, cut to `MAX_TEXT` characters."""
    found = redact(text)
    return found if found is None or len(found) <= MAX_TEXT else f"{found[:MAX_TEXT]}…"
