"""What has become of the last reload, for operators: `/readyz`, the log and a counter say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.observability.link_events import LinkEvents
    from policies.rules import CompiledPolicy


class PolicyState:
    """Not ready while the policy in force is neither the old one nor the new one."""

    def __init__(self, report: LinkEvents) -> None:
        self._report: Final = report
        self._replacing = self._halfway = False
        self._detail = "in force"
        self.reason = ""
        """Why there is the reload that is under way."""

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        return not self._halfway, self._detail

    def replacing(self) -> None:
        """From here on an error leaves something between two policies."""
        self._replacing = True

    def replaced(self, policy: CompiledPolicy, **counts: int) -> None:
        """All of the new policy is in force."""
        self._replacing = self._halfway = False
        self._detail = "in force"
        self._report.bump("reloads", "ok")
        self._report.log.info("policy reloaded", reason=self.reason, policy=str(policy.file), **counts)

    def refused(self, problems: list[str]) -> None:
        """The new file, or one it names, is wrong: what is in force goes on."""
        if not self._halfway:
            self._detail = "in force; the last reload was refused"
        self._report.bump("reloads", "failed")
        self._report.log.error("reload refused, the old policy stays", reason=self.reason, problems=problems)

    def broken(self, error: Exception) -> None:
        """A fault of ours ended a reload: before anything was replaced the old policy stays whole."""
        kind = type(error).__name__
        if self._replacing:
            self._halfway = True
            self._detail = f"a reload failed halfway ({kind}): reload again (SIGHUP), or restart"
        else:
            self._detail = f"in force; the last reload failed ({kind})"
        self._report.bump("reloads", "error")
        self._report.task_failed("reload", error)
