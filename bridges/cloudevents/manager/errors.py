"""The errors of the manager's operations, the same in every binding (CE 3.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from bridges.cloudevents.model.values import Json, Mistake
from gateway.plural import counted

_LIMITS: Final = {
    "subscriptions": "this manager has {} subscriptions, and may not have more (limits.subscriptions)",
    "user": "you have {} subscriptions, and may not have more (limits.user)",
}


RETRY_AFTER: Final = 5
"""The `Retry-After` of callers when the store or Kafka is unavailable, in seconds."""


class ErrorCode(StrEnum):
    """The error codes: those of CE 3.2.4 (`conflict`, `invalid`, `notfound`), and others of this manager."""

    CONFLICT = "conflict"
    INVALID = "invalid"
    NOT_FOUND = "notfound"
    FORBIDDEN = "forbidden"
    UNSUPPORTED = "unsupported"
    """The policy does not offer the operation."""
    CHANGED = "changed"
    """The subscription's revision is not the expected one."""
    TOO_MANY = "toomany"
    UNAVAILABLE = "unavailable"


class ApiError(Exception):
    """An operation failed and changed nothing."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        mistakes: Sequence[Mistake] = (),
        *,
        retry_after: int | None = None,
    ) -> None:
        """`retry_after`: seconds after which the request may be repeated."""
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.mistakes: Final = tuple(mistakes)
        self.retry_after: Final = retry_after

    def document(self) -> dict[str, Json]:
        """The error object of docs/subscriptions.md."""
        return error_document(self.code, self.message, self.mistakes)


def error_document(code: str, message: str, mistakes: Sequence[Mistake] = ()) -> dict[str, Json]:
    """`{"error", "message", "mistakes"}`; `mistakes` only if there are any."""
    document: dict[str, Json] = {"error": code, "message": message}
    if mistakes:
        document["mistakes"] = [{"field": each.field, "message": each.message} for each in mistakes]
    return document


def invalid(mistakes: Sequence[Mistake]) -> ApiError:
    """The error with every mistake of an object."""
    message = counted(len(mistakes), "mistake")
    return ApiError(ErrorCode.INVALID, message, mistakes)


def not_found() -> ApiError:
    """The subscription does not exist, or belongs to somebody else: the error is the same for both."""
    return ApiError(ErrorCode.NOT_FOUND, "there is no subscription with this id")


def already_exists() -> ApiError:
    """Another subscription has the id."""
    return ApiError(ErrorCode.CONFLICT, "there is a subscription with this id")


def revision_changed() -> ApiError:
    """Another change was faster."""
    return ApiError(ErrorCode.CHANGED, "the subscription has changed; retrieve it and try again")


def store_unavailable(retry_after: int) -> ApiError:
    """The store does not answer; `retry_after` is in seconds."""
    return ApiError(ErrorCode.UNAVAILABLE, "subscriptions cannot be changed now; try again", retry_after=retry_after)


def limit_reached(which: str, most: int) -> ApiError:
    """A limit of the policy: `which` is `subscriptions` (of the manager) or `user`."""
    return invalid([Mistake("", _LIMITS[which].format(most))])


def positions_unknown(retry_after: int) -> ApiError:
    """No gateway has stored positions yet; `retry_after` is in seconds."""
    return ApiError(ErrorCode.UNAVAILABLE, "its positions are not known now; try again", retry_after=retry_after)
