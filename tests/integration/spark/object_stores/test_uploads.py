"""Uploads in parts, of which the store's answers are lost, and which store a process uploads to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bridges.spark.archive.storage import s3
from bridges.spark.archive.storage.s3 import PART, ObjectPath
from tests.support.gateway.process import free_port
from tests.support.servers.object_store import ObjectStore


@contextmanager
def losing(store: ObjectStore, *, stored: bool) -> Iterator[tuple[str, list[str]]]:
    """The endpoint of a proxy that loses the first answer about a complete upload, or the request; and what came."""
    completed: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_complete = self.command == "POST" and "uploadId=" in self.path
            completed.extend([self.path] * is_complete)
            if is_complete and len(completed) == 1 and not stored:
                self.close_connection = True
                return
            connection = HTTPConnection("127.0.0.1", store.port)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if is_complete and len(completed) == 1:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name not in ("Content-Length", "Transfer-Encoding", "Date", "Server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", completed
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("stored", [True, False])
def test_a_lost_answer_about_a_complete_upload_does_not_fail_it(
    object_store: ObjectStore, tmp_path: Path, stored: bool
) -> None:
    """The client asks for the same again, and the store has no such upload any more."""
    path, file = object_store.path("lost"), tmp_path / "file"
    file.write_bytes(os.urandom(2 * PART + 1))
    with losing(object_store, stored=stored) as (endpoint, completed):
        by_proxy = ObjectPath(path.bucket, path.key, replace(path.settings, endpoint=endpoint))
        with file.open("rb") as source:
            (by_proxy / "file").upload(source)
        assert len(completed) == 2
    assert (path / "file").read_bytes() == file.read_bytes()


def test_an_upload_to_no_bucket_fails(object_store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(2 * PART))
    path = ObjectPath("no-such-bucket", "file", object_store.path().settings)
    with pytest.raises(FileNotFoundError, match="there is no such bucket"), file.open("rb") as source:
        path.upload(source)


def test_a_named_endpoint_wins_over_that_of_the_environment(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's endpoint is that of all machines; the environment of a worker may name another one."""
    monkeypatch.setattr(s3, "_stores", {})
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    path = object_store.path("endpoint") / "object"
    path.write_bytes(b"x")
    assert path.read_bytes() == b"x"
