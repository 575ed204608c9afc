"""The options of `format("scopegate")`; unknown ones are errors (docs/pipeline.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypedDict

from bridges.spark.columns import schema
from bridges.spark.errors import PipelineError
from gateway.client.blocking import Credentials
from gateway.errors import AmqpError
from gateway.filters.parse.sql import parse_sql
from policies.values.units import Endpoint, parse_endpoint

_PEER: Final = ("url", "address", "user", "passwordFile", "passwordEnv", "ca", "cert", "key", "allowPlainWithoutTls")
NAMES: Final = (
    *_PEER, "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp", "filter",
    "maxEventsPerTrigger", "failOnDataLoss", "maxTasks", "columns",
)  # fmt: skip
WRITING: Final = (*_PEER, "progressLocation")
_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options that Spark itself adds for a sink."""
OffsetOption = dict[int, int]


class _PeerFields(TypedDict):
    endpoint: Endpoint
    address: str
    user: str | None
    password_file: str | None
    password_env: str | None
    ca: str | None
    cert: str | None
    key: str | None
    plain: bool


@dataclass(frozen=True)
class PeerOptions:
    """A node of an AMQP peer and the login; has the locations of secrets, not the secrets."""

    endpoint: Endpoint
    address: str
    user: str | None
    password_file: str | None
    password_env: str | None
    ca: str | None
    cert: str | None
    key: str | None
    plain: bool

    def credentials(self) -> Credentials:
        """The credentials, with the password read in this process. Raises `PipelineError`."""
        password = None
        if self.password_file is not None:
            try:
                password = Path(self.password_file).read_text().rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise PipelineError(f"passwordFile {self.password_file} cannot be read: {error}") from None
        elif self.password_env is not None:
            password = os.environ.get(self.password_env)
            if password is None:
                raise PipelineError(f"passwordEnv: {self.password_env} is not set on the machine of the task")
        for name, file in (("ca", self.ca), ("cert", self.cert), ("key", self.key)):
            if file is not None and not Path(file).is_file():
                raise PipelineError(f"{name} {file} is not a file on the machine of the task")
        return Credentials(self.user, password, self.ca, self.plain, self.cert, self.key)


@dataclass(frozen=True)
class ReadOptions(PeerOptions):
    """The options of a source."""

    starting: str | OffsetOption
    """`earliest`, `latest`, or the first offset by partition."""
    starting_time: int | None
    """Milliseconds since 1970; an alternative to `starting`."""
    ending: str | OffsetOption
    """`latest`, or the end offset (exclusive) by partition."""
    ending_time: int | None
    filter: str | None
    max_events: int | None
    fail_on_loss: bool
    max_tasks: int | None
    columns: tuple[str, ...] = tuple(schema.COLUMNS)
    """The columns of the result, in the order of `schema.COLUMNS`."""


@dataclass(frozen=True)
class WriteOptions(PeerOptions):
    """The options of a sink."""

    progress: Path | None
    """Folder in which the tasks of a streaming query record the accepted messages."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of a source; Spark passes their names in lower case. Raises `PipelineError` with the allowed values."""
    found = _known(given, NAMES)
    for offsets, time in (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp")):
        if offsets in found and time in found:
            raise PipelineError(f"format scopegate: {offsets} and {time} are mutually exclusive")
    options = ReadOptions(
        **_peer(found),
        starting=_offsets(found, "startingOffsets", ("earliest", "latest")),
        starting_time=_time(found, "startingTimestamp"),
        ending=_offsets(found, "endingOffsets", ("latest",)),
        ending_time=_time(found, "endingTimestamp"),
        filter=_filter(found.get("filter")),
        max_events=_number(found, "maxEventsPerTrigger"),
        fail_on_loss=_flag(found, "failOnDataLoss", True),
        max_tasks=_number(found, "maxTasks"),
        columns=_columns(found.get("columns")),
    )
    _check_order(options)
    return options


def _check_order(options: ReadOptions) -> None:
    """Raise `PipelineError` for a batch that would end before its start, and so be empty without a word."""
    starts, ends = ({} if isinstance(each, str) else each for each in (options.starting, options.ending))
    for partition, start in starts.items():
        if (end := ends.get(partition, start)) < start:
            place = f"partition {partition} ends at offset {end}, before its start at {start}"
            raise PipelineError(f"format scopegate: startingOffsets and endingOffsets: {place}")
    start_time, end_time = options.starting_time, options.ending_time
    if start_time is not None and end_time is not None and end_time < start_time:
        raise PipelineError("format scopegate: endingTimestamp is before startingTimestamp")


def target_options(given: Mapping[str, str]) -> PeerOptions:
    """Options of an address that a replay sends to: none that select what is read. Raises `PipelineError`."""
    return PeerOptions(**_peer(_known(given, _PEER)))


def selected_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns in the option `columns`, by default all. Raises `PipelineError` for an unknown one."""
    return _columns({name.lower(): value for name, value in given.items()}.get("columns"))


def _columns(text: str | None) -> tuple[str, ...]:
    names = tuple(schema.COLUMNS)
    if text is None:
        return names
    wanted = {each.strip() for each in text.split(",")} - {""}
    for name in sorted(wanted - set(names)):
        text = f"option columns: there is no column {name}{suggestion(name, names)} ({_there_are(names)})"
        raise PipelineError(f"format scopegate: {text}")
    if not wanted:
        raise PipelineError("format scopegate: option columns has to be a list such as partition,offset,body")
    return tuple(name for name in names if name in wanted)


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Options of a sink; by default its progress is in the folder of the query's checkpoint. Raises `PipelineError`."""
    found = _known(given, WRITING, _OF_SPARK)
    checkpoint = _folder(found.get("checkpointLocation"))
    progress = found.get("progressLocation")
    if progress is not None and _folder(progress) is None:
        text = f"progressLocation has to be a folder that all tasks reach, not {progress}"
        raise PipelineError(f"format scopegate: option {text}")
    return WriteOptions(**_peer(found), progress=_folder(progress) or (checkpoint and checkpoint / "scopegate"))


def _known(given: Mapping[str, str], names: tuple[str, ...], silent: tuple[str, ...] = ()) -> dict[str, str]:
    """The options by their documented names. Raises `PipelineError` for unknown, missing or conflicting ones."""
    spelled = {name.lower(): name for name in (*names, *silent)}
    for name in sorted(given):
        if name.lower() not in spelled:
            text = f"unknown option {name}{suggestion(name, names)} ({_there_are(names)})"
            raise PipelineError(f"format scopegate: {text}")
    found = {spelled[name.lower()]: value for name, value in given.items()}
    for name in ("url", "address"):
        if not found.get(name):
            raise PipelineError(f'format scopegate: option {name} is missing (url is like "amqp://host:5672")')
    if "passwordFile" in found and "passwordEnv" in found:
        raise PipelineError("format scopegate: passwordFile and passwordEnv are mutually exclusive")
    return found


def suggestion(name: str, names: tuple[str, ...]) -> str:
    """A suffix for errors that suggests the most similar name; empty if none is similar."""
    by_case = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), by_case, 1)
    return f", did you mean {by_case[near[0]]}?" if near else ""


def _there_are(names: tuple[str, ...]) -> str:
    return f"there is: {', '.join(names)}"


def _peer(found: Mapping[str, str]) -> _PeerFields:
    """The fields of `PeerOptions`."""
    try:
        endpoint = parse_endpoint(found["url"])
    except ValueError as error:
        raise PipelineError(f"format scopegate: option url {error}") from None
    if ("cert" in found) != ("key" in found):
        raise PipelineError("format scopegate: options cert and key belong together")
    if "cert" in found and not endpoint.tls:
        raise PipelineError(f"format scopegate: option cert is for amqps://, not {endpoint}")
    return {
        "endpoint": endpoint,
        "address": found["address"],
        "user": found.get("user"),
        "password_file": found.get("passwordFile"),
        "password_env": found.get("passwordEnv"),
        "ca": found.get("ca"),
        "cert": found.get("cert"),
        "key": found.get("key"),
        "plain": _flag(found, "allowPlainWithoutTls", False),
    }


def _flag(found: Mapping[str, str], name: str, default: bool) -> bool:
    text = found.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise PipelineError(f"format scopegate: option {name} has to be true or false, not {text!r}")
    return text == "true"


def _number(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise PipelineError(f"format scopegate: option {name} has to be a number from 1 on, not {text!r}")
    return int(text)


def _time(found: Mapping[str, str], name: str) -> int | None:
    """A time in milliseconds since 1970; the option may also be ISO 8601, in UTC if no zone is given."""
    text = found.get(name)
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        allowed = "milliseconds since 1970 or a time like 2026-11-21T08:00:00Z"
        raise PipelineError(f"format scopegate: option {name} has to be {allowed}, not {text!r}") from None
    return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)


def _offsets(found: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | OffsetOption:
    text = found.get(name, words[0])
    if text in words:
        return text
    try:
        given = json.loads(text)
        offsets = {int(partition): int(offset) for partition, offset in given.items()}
        if min(offsets.values(), default=-1) < 0:
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        allowed = ", ".join(words)
        raise PipelineError(
            f'format scopegate: option {name} has to be {allowed} or JSON like {{"0": 100}}, not {text!r}'
        ) from None
    return offsets


def _filter(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_sql(text)
        except AmqpError as error:
            raise PipelineError(f"format scopegate: option filter: {error.description}") from None
    return text


def _folder(location: str | None) -> Path | None:
    """The path of a folder in the file system; `None` for other locations, such as an object store."""
    if location is None:
        return None
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None
