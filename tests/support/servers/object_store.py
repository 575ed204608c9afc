"""An object store with the S3 API in memory: gofakes3, which honours conditional requests (tests/clients/s3-go)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from unittest.mock import patch

from bridges.spark.archive.storage.s3 import ObjectPath, S3Settings
from tests.support.gateway.process import Process, Server, answers, free_port
from tests.support.project.parts import folder

BUCKET = "archives"
KEY = "AKIAEXAMPLE"
SECRET = "a-secret-that-no-log-has"


class ObjectStore(Server):
    """A server with one bucket and one access key."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What processes need that use it."""
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return {"AWS_ENDPOINT_URL_S3": self.endpoint, "AWS_REGION": "us-east-1", **keys}

    def start(self) -> None:
        """Start the server, empty, and wait for its port."""
        command = [str(folder("object-store") / "server"), f"127.0.0.1:{self.port}", KEY, BUCKET]
        self.process = Process("object-store", command)
        self.process.wait_ready(lambda: answers(self.port), "the object store to listen")

    def create_folder(self, key: str) -> None:
        """Create what the console of an object store calls a folder: an empty object whose name ends with a slash."""
        self._put(f"/{BUCKET}/{key}/")

    def create_bucket(self, *, versions: bool) -> str:
        """Create one more bucket, which keeps the versions of its objects or does not."""
        name = f"bucket-{uuid.uuid4().hex[:8]}"
        self._put(f"/{name}")
        if versions:
            status = b"<Status>Enabled</Status>"
            self._put(f"/{name}?versioning", b"<VersioningConfiguration>" + status + b"</VersioningConfiguration>")
        return name

    def _put(self, path: str, data: bytes = b"") -> None:
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("PUT", path, data, {"Authorization": f"Credential={KEY}/"})
        assert connection.getresponse().status == 200
        connection.close()

    def path(self, prefix: str = "") -> ObjectPath:
        """A prefix that no other test uses."""
        settings = S3Settings(self.endpoint, "us-east-1", KEY, SECRET)
        return ObjectPath(BUCKET, f"{prefix or 'a'}-{uuid.uuid4().hex[:8]}", settings)

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """This process and those it starts use it meanwhile."""
        with patch.dict(os.environ, self.environment):
            yield
