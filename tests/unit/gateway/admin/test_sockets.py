"""Sockets of admin APIs: whose folders are used, what replaces what, and who is found."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gateway.admin.sockets import bind, folders, live_sockets, own_path, usable


def test_a_systemd_unit_uses_its_own_folder_and_a_user_theirs() -> None:
    assert folders({"RUNTIME_DIRECTORY": "/run/a:/run/b"}, 7) == [Path("/run/a"), Path("/run/b")]
    assert folders({"XDG_RUNTIME_DIR": "/run/user/7"}, 7)[0] == Path("/run/user/7/scopegate")
    assert folders({}, 0)[0] == Path("/run/scopegate")


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not usable(tmp_path, os.geteuid())
    with pytest.raises(OSError, match=r"set gateway\.admin\.listen"):
        own_path("gw", {"RUNTIME_DIRECTORY": str(tmp_path)}, os.geteuid())
    tmp_path.chmod(0o700)
    assert usable(tmp_path, os.geteuid())
    assert not usable(tmp_path, os.geteuid() + 1)
    path = own_path("gw", {"RUNTIME_DIRECTORY": str(tmp_path)}, os.geteuid())
    assert path == tmp_path / f"gw.{os.getpid()}.sock"


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path, where = tmp_path / "gw.1.sock", {"RUNTIME_DIRECTORY": str(tmp_path)}
    with bind(path):
        assert live_sockets(where, os.geteuid()) == [path]
        with pytest.raises(OSError, match="another process answers there"):
            bind(path)
    assert path.is_socket()
    assert live_sockets(where, os.geteuid()) == []
    with bind(path) as again:
        assert again.family == socket.AF_UNIX
        assert path.stat().st_mode & 0o077 == 0


def test_a_file_at_its_place_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "gw.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="there is a file that is no socket"):
        bind(path)
    assert path.read_text() == "mine"


def test_a_path_that_nobody_could_connect_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("gw" * 50)
    with pytest.raises(OSError, match=r"has at most 107 bytes: set gateway\.admin\.listen to unix:/path$"):
        bind(path)
    assert [*tmp_path.iterdir()] == []
