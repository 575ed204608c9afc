"""Entity tags of subscriptions: their revisions (RFC 9110, 8.8.3 and 13.1.1)."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

_TAG: Final = re.compile(r'"([0-9]{1,18})"')
_ANY: Final = range(2**63)


def etag(revision: int) -> str:
    """The entity tag of a revision."""
    return f'"{revision}"'


def expected_revisions(if_match: str | None) -> Container[int] | None:
    """The revisions that `If-Match` allows; None if the header is missing, so that any revision is allowed."""
    if if_match is None:
        return None
    if if_match.strip() == "*":
        return _ANY
    tags = (_TAG.fullmatch(each.strip()) for each in if_match.split(","))
    return frozenset(int(tag[1]) for tag in tags if tag is not None)  # a weak tag never matches
