"""Who uses the admin API, and what they may do."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Role = Literal["view", "operate"]
OPERATE: Final[Role] = "operate"
VIEW: Final[Role] = "view"


class AdminCaller(NamedTuple):
    """Somebody who has proved who they are; `name` is for the audit log."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the caller has this role; who may operate may also view."""
        return role == VIEW or self.role == OPERATE


def local_caller(uid: int, own: int) -> AdminCaller | None:
    """The caller at a unix socket, by the user id that the kernel gives: root or the user of the gateway."""
    return AdminCaller(f"uid {uid}", OPERATE) if uid in (0, own) else None
