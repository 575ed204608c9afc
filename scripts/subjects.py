"""Check the subjects of the commits after BASE: `python scripts/subjects.py`, part of `make lint`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BASE = "bd6db17dfa26496d40e9ffbb3f4e4d52d0f62d55"
"""The last commit before subjects had rules."""
LENGTH = 72
ENDINGS = ("ed", "ing", "s")
"""Endings of first words that are not imperatives: Fixed, Fixing, Fixes."""
IMPERATIVES = frozenset(
    {"Alias", "Bias", "Bring", "Embed", "Exceed", "Feed", "Focus", "Need", "Ping", "Proceed", "Seed", "Shed", "Speed"}
)
"""Imperatives with such an ending; add missing ones here. Words that end in a double s always count as imperatives."""
EXCUSED: frozenset[str] = frozenset({"adc341bd62ba49f9ecdfda4916058758c1d0c5e5"})
"""Full hashes of commits that were pushed with a subject against the rules: pushed commits are not rewritten."""


def faults(subject: str) -> Iterator[str]:
    """Yield each fault of a subject; nothing if it follows the rules."""
    if len(subject) > LENGTH:
        yield f"{len(subject)} characters, {LENGTH} at most"
    if not subject[:1].isupper():
        yield "begins without a capital letter"
    if subject.endswith("."):
        yield "ends with a full stop"
    word = subject.partition(" ")[0]
    if word.endswith(ENDINGS) and not word.endswith("ss") and word not in IMPERATIVES:
        yield f"{word!r} is no imperative"


def commits(repository: Path) -> list[tuple[str, str]] | None:
    """Hash and subject of each commit after BASE, without merges; None without git or BASE (a shallow clone)."""
    if _git(repository, "merge-base", "--is-ancestor", BASE, "HEAD") is None:
        return None
    lines = _git(repository, "log", "--no-merges", "--format=%H %s", f"{BASE}..HEAD") or ""
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines.splitlines()]


def _git(repository: Path, *arguments: str) -> str | None:
    """The output of git; None if it fails or is missing."""
    try:
        done = subprocess.run(  # noqa: S603 - no argument comes from outside
            ["git", "-C", str(repository), *arguments],  # noqa: S607 - any git will do
            capture_output=True, text=True, encoding="utf-8", errors="replace", check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def main(repository: Path) -> int:
    """Print each fault; 1 if there is one."""
    found = commits(repository)
    if found is None:
        print(f"subjects: no git history after {BASE[:7]} here, nothing to check")  # noqa: T201
        return 0
    wrong = [f"{name[:9]} {text!r}: {fault}" for name, text in found if name not in EXCUSED for fault in faults(text)]
    print("\n".join([*wrong, f"subjects: {len(found)} commits, {len(wrong)} faults"]))  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
