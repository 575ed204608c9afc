"""The result of the last reload, for operators: in `/readyz`, in the log and as a counter."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from gateway.observability.link_events import LinkEvents
    from policies.rules import CompiledPolicy


_REMEMBERED: Final = 10
"""Policies whose time is remembered."""


class ReloadOutcome(NamedTuple):
    """How a reload ended, at `at` (seconds since 1970)."""

    at: float
    result: str
    """`ok`, `failed` (mistakes: the old policy stays in force) or `error` (unexpected)."""
    problems: Sequence[str] = ()
    counts: Mapping[str, int] = {}
    """What it has closed."""


class PolicyState:
    """Not ready while the policy in force is part old and part new."""

    def __init__(self, report: LinkEvents) -> None:
        self._report: Final = report
        self._replacing = self._partial = False
        self._detail = "in force"
        self.reason = ""
        """The reason of the reload in progress: a signal or a changed file."""
        self.changed: list[str] = []
        """The changed files."""
        self.parts: list[str] = []
        """The parts of the policy that the reload in progress changes."""
        self.outcome: ReloadOutcome | None = None
        """How the last reload ended; None: there was none."""
        self.since: Final[dict[str, float]] = {}
        """When the policies with these digests came into force; those of now and before."""
        self.before: CompiledPolicy | None = None
        """The policy before the one in force, if its text was another."""
        self._now: CompiledPolicy | None = None

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        return not self._partial, self._detail

    def replacing(self) -> None:
        """The reload begins to replace things: an error from now on leaves part of both policies in force."""
        self._replacing = True

    def replaced(self, policy: CompiledPolicy, **counts: int) -> None:
        """The whole new policy is in force."""
        self._replacing = self._partial = False
        self._detail = "in force"
        self._report.increment("reloads", "ok")
        self.outcome = ReloadOutcome(time.time(), "ok", counts=counts)
        self.in_force(policy)
        about = {"reason": self.reason, "changed": self.changed, "policy": str(policy.file), "digest": policy.digest}
        self._report.log.info("policy reloaded", **about, parts=self.parts, **counts)

    def in_force(self, policy: CompiledPolicy) -> None:
        """Note since when a policy is in force; a reload of the same one changes nothing."""
        digest = policy.digest
        if [*self.since][-1:] != [digest]:
            self.before, self._now = self._now, policy
            self.since.pop(digest, None)
            self.since[digest] = time.time()
        while len(self.since) > _REMEMBERED:
            del self.since[next(iter(self.since))]

    def refused(self, problems: list[str]) -> None:
        """The new file, or one that it names, has mistakes: the old policy stays in force."""
        if not self._partial:
            self._detail = "in force; the last reload was refused"
        self._report.increment("reloads", "failed")
        self.outcome = ReloadOutcome(time.time(), "failed", problems)
        self._report.log.error(
            "policy reload rejected, keeping the current policy",
            reason=self.reason,
            changed=self.changed,
            problems=problems,
        )

    def broken(self, error: Exception) -> None:
        """An unexpected error ended a reload; the old policy is intact if nothing had been replaced."""
        kind = type(error).__name__
        if self._replacing:
            self._partial = True
            self._detail = f"a reload failed halfway ({kind}): reload again (SIGHUP), or restart"
        else:
            self._detail = f"in force; the last reload failed ({kind})"
        self._report.increment("reloads", "error")
        self.outcome = ReloadOutcome(time.time(), "error", [f"{self._detail}; the log has the error"])
        self._report.task_failed("reload", error)
