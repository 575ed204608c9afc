"""The lines that differ between two policies as JSON; pure."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING, Final

from gateway.admin.documents.common import Document

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy

_LINES: Final = 20_000
"""Lines of a policy that is compared: the time grows faster than their number."""
_SHOWN: Final = 2_000


def diff_document(before: CompiledPolicy | None, now: CompiledPolicy) -> Document:
    """The differences in the form of `diff -u`; `before` None: there was no other policy in this process."""
    about: Document = {"before": None if before is None else before.digest, "now": now.digest, "note": None}
    if before is None:
        return {**about, "lines": []}
    old, new = before.text.splitlines(), now.text.splitlines()
    if max(len(old), len(new)) > _LINES:
        return {**about, "lines": [], "note": f"policies of more than {_LINES} lines are not compared"}
    lines = [*islice(unified_diff(old, new, before.digest, now.digest, lineterm=""), _SHOWN + 1)]
    cut = f"only the first {_SHOWN} lines" if len(lines) > _SHOWN else None
    return {**about, "lines": lines[:_SHOWN], "note": cut}
