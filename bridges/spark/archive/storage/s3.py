"""Objects in a bucket, with the part of the `pathlib.Path` interface that archives use (docs/decisions/0067).

An object is written as a whole or not at all. There are no folders: a path counts as one if objects exist below it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from bridges.spark.errors import PipelineError
from policies.values.folders import archive_problem

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

ENDPOINT: Final = "AWS_ENDPOINT_URL_S3"
REGION: Final = "AWS_REGION"
KEY_ID: Final = "AWS_ACCESS_KEY_ID"
_URL: Final = re.compile(r"https?://[^\s/@?#]+/?")
_REASON: Final = re.compile(r"<Code>(\w+)</Code>")
_NO_CREDENTIALS: Final = re.compile(r"https?://[^/\s]+/latest/(?:api/token|meta-data)\b")
"""Requests of the client for the role of its instance, the last place where it looks for credentials."""
_STATUS_DENIED: Final = re.compile(r"status code: 40[13]\b")
_STATUS: Final = re.compile(r"status code: (\d{3}[ \w]*)")
_RETRIES: Final = 5
_PATIENCE: Final = timedelta(seconds=60)
"""How long a request is retried; a longer failure is an outage of the job."""
PART: Final = 8 << 20
"""Part size of multipart uploads, in bytes; larger files are uploaded in parts, several at a time."""
_PARTS: Final = 4
_WITHOUT: Final = f"there are no credentials for the object store: set {KEY_ID} and so on, or give the machine a role"


@dataclass(frozen=True)
class S3Settings:
    """How to reach an object store. Omitted settings come from the environment of each process (`AWS_…`)."""

    endpoint: str | None = None
    """The URL of the object store; default: AWS."""
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    def store(self, bucket: str) -> S3Store:
        """A client. Raises `ValueError` and errors of obstore."""
        from obstore.store import S3Store

        config: S3Config = {"checksum_algorithm": "SHA256"}  # the store verifies each upload
        if self.endpoint is not None:
            config["aws_endpoint_url_s3"] = self.endpoint  # over "endpoint", the environment would take precedence
        if self.region is not None:
            config["region"] = self.region
        if self.access_key_id is not None and self.secret_access_key is not None:
            config["access_key_id"], config["secret_access_key"] = self.access_key_id, self.secret_access_key
        if self.session_token is not None:
            config["session_token"] = self.session_token
        plain = self.endpoint is not None and self.endpoint.startswith("http://")
        return S3Store(
            bucket,
            config=config,
            client_options={"allow_http": plain},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _PATIENCE},
        )


ENVIRONMENT: Final = S3Settings()
"""Settings that all come from the environment."""


def from_environment(settings: S3Settings = ENVIRONMENT) -> S3Settings:
    """The settings with endpoint and region of this process filled in, since all processes of a job must use the same.

    Raises `PipelineError` for an endpoint that is not a URL.
    """
    endpoint = settings.endpoint or os.environ.get(ENDPOINT) or os.environ.get("AWS_ENDPOINT_URL") or None
    if endpoint is not None and not _URL.fullmatch(endpoint):  # obstore would abort the process
        raise PipelineError(
            f"the endpoint {endpoint!r} of the object store is not a URL such as https://store.example:9000: check "
            f"--s3-endpoint, or {ENDPOINT}"
        )
    region = os.environ.get(REGION) or os.environ.get("AWS_DEFAULT_REGION") or None
    return replace(settings, endpoint=endpoint, region=settings.region or region)


_stores: dict[tuple[int, str, S3Settings], S3Store] = {}


def _store(bucket: str, settings: S3Settings) -> S3Store:
    """The client of this process; a forked process cannot use its parent's."""
    key = os.getpid(), bucket, settings
    if key not in _stores:
        try:
            from obstore.exceptions import BaseError
        except ImportError:
            raise PipelineError("obstore is not installed: pip install 'scopegate[spark]'") from None
        try:
            _stores[key] = settings.store(bucket)
        except (BaseError, ValueError) as error:
            raise PipelineError(f"s3://{bucket}: {_first_line(error)}") from None
    return _stores[key]


class ObjectStat(NamedTuple):
    """The part of `os.stat_result` that archives use; times are in seconds since 1970, by the store's clock."""

    st_size: int
    st_ctime: float


@dataclass(frozen=True)
class ObjectPath:
    """A path in a bucket; can be pickled. Its methods raise `OSError` as those of `Path` do."""

    bucket: str
    key: str
    settings: S3Settings = ENVIRONMENT

    @classmethod
    def from_url(cls, url: str, settings: S3Settings = ENVIRONMENT) -> ObjectPath:
        """Parse `s3://bucket/prefix`. Raises `ValueError` for any other text."""
        if (problem := archive_problem(url)) is not None:
            raise ValueError(problem)
        bucket, _, key = url.split("://", 1)[1].rstrip("/").partition("/")
        return cls(bucket, key, settings)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> ObjectPath:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)

    def __lt__(self, other: ObjectPath) -> bool:
        return (self.bucket, self.key) < (other.bucket, other.key)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The path without its last part."""
        return replace(self, key=self.key.rpartition("/")[0])

    def with_suffix(self, suffix: str) -> ObjectPath:
        """The path with another suffix."""
        stem, dot, _ = self.name.rpartition(".")
        return self.parent / f"{stem if dot else self.name}{suffix}"

    def absolute(self) -> ObjectPath:
        """The path itself: it is always absolute."""
        return self

    def resolve(self) -> ObjectPath:
        """The path itself: there are no links."""
        return self

    def relative_to(self, other: ObjectPath) -> str:
        """The path relative to another one. Raises `ValueError` if it is not below that."""
        prefix = f"{other.key}/" if other.key else ""
        if self.bucket != other.bucket or not self.key.startswith(prefix):
            raise ValueError(f"{self} is not below {other}")
        return self.key[len(prefix) :]

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: there are no folders."""

    # -- requests

    def stat(self) -> ObjectStat:
        """Size and time."""
        import obstore

        with self._errors():
            found = obstore.head(self._store, self.key)
        return ObjectStat(found["size"], found["last_modified"].timestamp())

    def exists(self) -> bool:
        """Whether there is an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there are objects below this path."""
        return any(True for _ in self.below())

    def read_bytes(self) -> bytes:
        """The whole object."""
        import obstore

        with self._errors():
            return bytes(obstore.get(self._store, self.key).bytes())

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the object, in parts."""
        import obstore

        with self._errors():
            for chunk in obstore.get(self._store, self.key).stream(PART):
                yield bytes(chunk)

    def read_range(self, start: int, length: int) -> bytes:
        """Some bytes of the object."""
        import obstore

        with self._errors():
            return bytes(obstore.get_range(self._store, self.key, start=start, length=length))

    def write_bytes(self, data: bytes) -> str | None:
        """Write or replace the object; returns its version if the bucket keeps versions."""
        import obstore

        with self._errors():
            return obstore.put(self._store, self.key, data, use_multipart=False)["version"]

    def create(self, data: bytes) -> None:
        """Write the object unless there is one, by a conditional request. Raises `FileExistsError`.

        After any other error, it is unknown whether the object was written or still will be.
        """
        import obstore

        with self._errors():
            obstore.put(self._store, self.key, data, mode="create")

    def upload(self, file: IO[bytes]) -> None:
        """Upload a local file as the object, which did not exist, in parts if it is large."""
        import obstore

        try:
            with self._errors():
                obstore.put(self._store, self.key, file, chunk_size=PART, max_concurrency=_PARTS)
        except FileNotFoundError:  # no such upload: perhaps it is complete, and the answer was lost
            with suppress(FileNotFoundError):
                if self.stat().st_size == os.fstat(file.fileno()).st_size:
                    return
            raise

    def copy_to(self, other: ObjectPath) -> None:
        """Copy the object within its bucket, on the side of the store."""
        import obstore

        with self._errors():
            obstore.copy(self._store, self.key, other.key)

    def unlink(self, missing_ok: bool = True) -> None:
        """Delete the object; no error if there is none, since stores do not report that."""
        import obstore

        with self._errors():
            obstore.delete(self._store, self.key)

    def below(self) -> Iterator[ObjectPath]:
        """All objects below this path, a page at a time, without empty ones: consoles create them for folders."""
        import obstore

        with self._errors():
            for page in obstore.list(self._store, f"{self.key}/" if self.key else None):
                yield from (replace(self, key=each["path"]) for each in page if each["size"])

    def names(self) -> list[str]:
        """The names of the objects directly below this path."""
        import obstore

        with self._errors():
            found = obstore.list_with_delimiter(self._store, f"{self.key}/" if self.key else None)
        return [each["path"].rpartition("/")[2] for each in found["objects"]]

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """The objects below that match a pattern, part by part; lists those below the leading parts without a star."""
        parts = pattern.split("/")
        fixed = next(place for place, part in enumerate(parts) if "*" in part or place == len(parts) - 1)
        base = self
        for part in parts[:fixed]:
            base = base / part
        for path in base.below():
            names = path.relative_to(self).split("/")
            if len(names) == len(parts) and all(map(fnmatchcase, names, parts)):
                yield path

    @property
    def _store(self) -> S3Store:
        return _store(self.bucket, self.settings)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the store into `OSError` with short texts that leave out the request."""
        client = self._store  # before obstore's exceptions are imported
        from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            what = "there is no such bucket" if "NoSuchBucket" in str(error) else os.strerror(errno.ENOENT)
            raise FileNotFoundError(errno.ENOENT, what, str(self)) from None
        except AlreadyExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self)) from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _denied(error), str(self)) from None
        except BaseError as error:
            if _NO_CREDENTIALS.search(str(error)):
                raise PermissionError(errno.EACCES, _WITHOUT, str(self)) from None
            if _STATUS_DENIED.search(str(error)):  # obstore raises a generic error for listings
                raise PermissionError(errno.EACCES, _denied(error), str(self)) from None
            raise OSError(errno.EIO, _short(error, self.settings.endpoint), str(self)) from None
        del client


def _denied(error: Exception) -> str:
    return f"the object store denies access{_code(error)}: check the credentials ({KEY_ID} and so on) and their rights"


def _short(error: Exception, endpoint: str | None) -> str:
    """A short reason for an error whose text may have pages."""
    text = str(error)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if found := _STATUS.search(text):
        return f"the object store answers {found[1].strip()}{_code(error)}"
    if "Connect" in text or "error sending request" in text:
        where = f"the object store at {endpoint or 'AWS'} cannot be reached"
        return f"{where}: check the endpoint (--s3-endpoint, {ENDPOINT})"
    return f"the object store: {_first_line(error)}"


def _code(error: Exception) -> str:
    found = _REASON.search(str(error))
    return f" ({found[1]})" if found else ""


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
