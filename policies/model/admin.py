"""Where operators reach a running gateway: the admin API (`gateway.admin`)."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from pydantic import Field, PlainValidator, WithJsonSchema

from policies.values.base import StrictSection
from policies.values.units import Bind, parse_bind

MAX_PATH: Final = 107
"""Bytes of the path of a unix socket that Linux takes (unix(7))."""
_PATTERN: Final = r"^(off|unix|unix:/.+|.+:[0-9]+)$"


class UnixSocket(NamedTuple):
    """A unix socket; no path: in the runtime folder of the process, under the id of the gateway."""

    path: str | None = None

    def __str__(self) -> str:
        return "unix" if self.path is None else f"unix:{self.path}"


AdminPlace = UnixSocket | Bind


def parse_admin_place(value: object) -> AdminPlace | None:
    """`unix`, `unix:/path` or `off`."""
    if value is None or value == "off" or value is False:
        return None
    if isinstance(value, UnixSocket | Bind):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError('needs "unix", "unix:/path/of/the.sock" or "off"')
    if value == "unix":
        return UnixSocket()
    if value.startswith("unix:"):
        return _socket(value.removeprefix("unix:"))
    return parse_bind(value)


def _socket(path: str) -> UnixSocket:
    if not path.startswith("/") or "\0" in path:
        raise ValueError('needs an absolute path after "unix:", like "unix:/run/scopegate/admin.sock"')
    if len(path.encode()) > MAX_PATH:
        raise ValueError(f"the path of a unix socket may have {MAX_PATH} bytes; this one has {len(path.encode())}")
    return UnixSocket(path)


class AdminSection(StrictSection):
    """The admin API and the commands that use it: status, connections, links, close and others.

    At a unix socket, root and the user of the gateway may see and change everything, and nobody else anything.
    """

    listen: Annotated[
        AdminPlace | None,
        PlainValidator(parse_admin_place),
        WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["unix", "unix:/run/gate/admin.sock"]}),
    ] = Field(
        default_factory=UnixSocket,
        description="unix (a socket in the runtime folder of the process, which the commands find), unix:/path, "
        "or off; a change needs a restart",
        json_schema_extra={"default": "unix"},
    )
