"""Where the unix sockets of admin APIs are: a process binds one here, and the commands find it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_SUFFIX: Final = ".sock"
_NAME: Final = "scopegate"
_MOST: Final = 100
"""Sockets that are looked at in one folder."""


def folders(environ: Mapping[str, str], uid: int) -> list[Path]:
    """The runtime folders of a user, the preferred one first: the user's, the system's; a systemd unit has its own."""
    if found := [Path(each) for each in environ.get("RUNTIME_DIRECTORY", "").split(":") if each]:
        return found
    if uid and (own := environ.get("XDG_RUNTIME_DIR")):
        found.append(Path(own) / _NAME)
    return [*found, Path("/run") / _NAME, Path("/tmp") / f"{_NAME}-{uid}"]  # noqa: S108 (checked by `usable`)


def usable(folder: Path, uid: int) -> bool:
    """Whether a folder belongs to the user alone; nobody else may put a socket there."""
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o022
    return False


def own_path(name: str, environ: Mapping[str, str], uid: int) -> Path:
    """The path of this process's socket; makes its folder. Raises OSError if there is no folder for it."""
    for folder in folders(environ, uid):
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if usable(folder, uid) and os.access(folder, os.W_OK):
                _remove_dead(folder)
                return folder / f"{name}.{os.getpid()}{_SUFFIX}"
    raise OSError("no folder for an admin socket: set gateway.admin.listen to unix:/path, or to off")


def live_sockets(environ: Mapping[str, str], uid: int) -> list[Path]:
    """The sockets that answer, in all runtime folders; of every user for root."""
    found: list[Path] = []
    for folder in folders(environ, uid):
        if usable(folder, uid) or uid == 0:
            found += [each for each in _sockets(folder) if answers(each)]
    return list(dict.fromkeys(found))


def bind(path: Path) -> socket.socket:
    """A listening socket at `path` for its owner alone; replaces one that nobody answers. Raises OSError."""
    from policies.model.admin import MAX_PATH  # commands that look for sockets need no policy

    if len(os.fsencode(path)) > MAX_PATH:  # the shorter name that is bound below would do, and nobody could connect
        raise OSError(f"{path}: a socket's path has at most {MAX_PATH} bytes: set gateway.admin.listen to unix:/path")
    if path.is_socket() and answers(path):
        raise OSError(f"{path}: another process answers there")
    if path.exists() and not path.is_socket():
        raise OSError(f"{path}: there is a file that is no socket")
    new = path.with_name(f".{os.getpid()}")  # nobody takes a socket for dead before it listens
    new.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the file has its mode from the first moment on
    try:
        listening.bind(str(new))
        listening.listen(128)
        new.rename(path)
    except OSError as error:
        listening.close()
        raise OSError(f"{path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    listening.setblocking(False)
    return listening


def _sockets(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob(f"*{_SUFFIX}"))[:_MOST]
    return []


def answers(path: Path) -> bool:
    """Whether a process accepts connections at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


def _remove_dead(folder: Path) -> None:
    """Remove sockets of processes that were killed."""
    for each in _sockets(folder):
        if not answers(each):
            with suppress(OSError):
                each.unlink()
