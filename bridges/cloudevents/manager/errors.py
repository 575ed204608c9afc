"""The errors of the manager's operations, the same in every binding (CE 3.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from bridges.cloudevents.subscription.model import Json, Mistake


class ErrorCode(StrEnum):
    """The result codes of CE 3.2.4 that are errors (`conflict`, `invalid`, `notfound`), and ours beside them."""

    CONFLICT = "conflict"
    INVALID = "invalid"
    NOT_FOUND = "notfound"
    FORBIDDEN = "forbidden"
    UNSUPPORTED = "unsupported"
    """The policy does not offer the operation."""
    CHANGED = "changed"
    """The subscription has another revision than the caller expects."""
    TOO_MANY = "toomany"
    UNAVAILABLE = "unavailable"


class ApiError(Exception):
    """An operation that was not done; nothing has changed."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        mistakes: Sequence[Mistake] = (),
        *,
        retry_after: int | None = None,
    ) -> None:
        """`retry_after`: seconds after which the same request may be done."""
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.mistakes: Final = tuple(mistakes)
        self.retry_after: Final = retry_after

    def document(self) -> dict[str, Json]:
        """The error object of docs/subscriptions.md."""
        return error_document(self.code, self.message, self.mistakes)


def error_document(code: str, message: str, mistakes: Sequence[Mistake] = ()) -> dict[str, Json]:
    """`{"error", "message", "mistakes"}`; the last one only where there are any."""
    document: dict[str, Json] = {"error": code, "message": message}
    if mistakes:
        document["mistakes"] = [{"field": each.field, "message": each.message} for each in mistakes]
    return document


def invalid(mistakes: Sequence[Mistake]) -> ApiError:
    """Every mistake of an object at once."""
    message = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return ApiError(ErrorCode.INVALID, message, mistakes)


def not_found() -> ApiError:
    """There is no such subscription, or it is somebody else's: nobody can tell which."""
    return ApiError(ErrorCode.NOT_FOUND, "there is no subscription with this id")
