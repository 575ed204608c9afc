"""The options of `format("scopegate")`: unknown ones are a mistake, not a wish (docs/pipeline.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridges.spark.amqp_client import Credentials
from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError
from gateway.filters.sql import parse_sql
from policies.units import Endpoint, parse_endpoint

NAMES: Final = (
    "url", "address", "user", "passwordFile", "passwordEnv", "ca", "allowPlainWithoutTls", "startingOffsets",
    "endingOffsets", "filter", "maxEventsPerTrigger", "failOnDataLoss", "maxTasks",
)  # fmt: skip
_SPELLED: Final = {name.lower(): name for name in NAMES}
Places = dict[int, int]


@dataclass(frozen=True)
class Options:
    """What a source was asked for; no secret is in it, only where one is found."""

    endpoint: Endpoint
    address: str
    user: str | None
    password_file: str | None
    password_env: str | None
    ca: str | None
    plain: bool
    starting: str | Places
    """earliest, latest, or the first offset per partition."""
    ending: str | Places
    """latest, or the offset after the last per partition."""
    filter: str | None
    max_events: int | None
    fail_on_loss: bool
    max_tasks: int | None

    def credentials(self) -> Credentials:
        """With the password looked up where this runs. Raises `PipelineError`."""
        password = None
        if self.password_file is not None:
            try:
                password = Path(self.password_file).read_text().rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise PipelineError(f"passwordFile {self.password_file} cannot be read: {error}") from None
        elif self.password_env is not None:
            password = os.environ.get(self.password_env)
            if password is None:
                raise PipelineError(f"passwordEnv: {self.password_env} is not set where the task runs")
        return Credentials(self.user, password, self.ca, self.plain)


def read_options(given: Mapping[str, str]) -> Options:
    """Spark's options, whose names have lost their case. Raises `PipelineError` with the option and what is allowed."""
    unknown = sorted(name for name in given if name.lower() not in _SPELLED)
    if unknown:
        raise PipelineError(f"format scopegate: unknown option {unknown[0]} (there is: {', '.join(NAMES)})")
    found = {_SPELLED[name.lower()]: value for name, value in given.items()}
    for name in ("url", "address"):
        if not found.get(name):
            raise PipelineError(f'format scopegate: option {name} is missing (url is like "amqp://host:5672")')
    try:
        endpoint = parse_endpoint(found["url"])
    except ValueError as error:
        raise PipelineError(f"format scopegate: option url {error}") from None
    if "passwordFile" in found and "passwordEnv" in found:
        raise PipelineError("format scopegate: passwordFile and passwordEnv are both given, one is enough")
    return Options(
        endpoint, found["address"], found.get("user"), found.get("passwordFile"), found.get("passwordEnv"),
        found.get("ca"), _flag(found, "allowPlainWithoutTls", False),
        _places(found, "startingOffsets", ("earliest", "latest")), _places(found, "endingOffsets", ("latest",)),
        _filter(found.get("filter")), _number(found, "maxEventsPerTrigger"), _flag(found, "failOnDataLoss", True),
        _number(found, "maxTasks"),
    )  # fmt: skip


def _flag(found: Mapping[str, str], name: str, default: bool) -> bool:
    text = found.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise PipelineError(f"format scopegate: option {name} is true or false, not {text!r}")
    return text == "true"


def _number(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise PipelineError(f"format scopegate: option {name} is a number from 1 on, not {text!r}")
    return int(text)


def _places(found: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | Places:
    text = found.get(name, words[0])
    if text in words:
        return text
    try:
        given = json.loads(text)
        places = {int(partition): int(offset) for partition, offset in given.items()}
        if min(places.values(), default=-1) < 0:
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        allowed = ", ".join(words)
        raise PipelineError(
            f'format scopegate: option {name} is {allowed} or JSON like {{"0": 100}}, not {text!r}'
        ) from None
    return places


def _filter(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_sql(text)
        except AmqpError as error:
            raise PipelineError(f"format scopegate: option filter: {error.description}") from None
    return text
