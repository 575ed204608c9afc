"""A blocking client for schema registries with Confluent's REST API, which other registries offer as well."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from bridges.spark.archive.manifest.commits import JsonObject

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_TIMEOUT: Final = 10.0
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_MOST_BYTES: Final = 16 << 20
_NOT_FOUND: Final = 404


class NoSchema(Exception):
    """A schema cannot be fetched; the text is the reason."""


@dataclass(frozen=True)
class RegistryOptions:
    """How to reach a registry; sent to tasks."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str | None = None
    """A PEM file with the CAs of its certificate; default: the system's."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema, and those that it references, by name; Protobuf schemas are descriptors in base64."""

    kind: str
    text: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class SchemaRegistry:
    """Fetches schemas and caches them, since they never change."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options: Final = options
        self._schemas: Final[dict[int, RegisteredSchema]] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema with this id. Raises `NoSchema`."""
        if number not in self._schemas:
            self._schemas[number] = self._resolved(f"/schemas/ids/{number}", f"schema {number}")
        return self._schemas[number]

    def _resolved(self, path: str, name: str, depth: int = 16) -> RegisteredSchema:
        found = self._get(path, name)
        kind = found.get("schemaType") or AVRO
        if kind == PROTOBUF:
            text = self._get(f"{path}{'/schema' if '/versions/' in path else ''}?format=serialized", name, kind)
            found = {**found, "schema": text.get("schema")}
        if not isinstance(found.get("schema"), str) or not depth:
            raise NoSchema(f"the registry's answer for {name} has no schema")
        references = tuple(
            (str(each["name"]), self._referenced(each, depth)) for each in found.get("references") or ()
        )
        return RegisteredSchema(kind, found["schema"], references)

    def _referenced(self, reference: JsonObject, depth: int) -> RegisteredSchema:
        subject, version = quote(str(reference["subject"]), safe=""), int(reference["version"])
        return self._resolved(f"/subjects/{subject}/versions/{version}", f"{reference['subject']} {version}", depth - 1)

    def _get(self, path: str, name: str, kind: str = "") -> JsonObject:
        options = self._options
        request = urllib.request.Request(options.url.rstrip("/") + path, headers={"Accept": _ACCEPT})  # noqa: S310
        if options.user:
            login = base64.b64encode(f"{options.user}:{options.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        context = ssl.create_default_context(cafile=options.ca) if options.url.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:  # noqa: S310
                data = answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            text = f"the registry has no {name}" if error.code == _NOT_FOUND else f"the registry answered {error.code}"
            raise NoSchema(text) from None
        except (OSError, ValueError) as error:
            raise NoSchema(f"the registry at {urlsplit(options.url).netloc} does not answer ({error})") from None
        return _object(data, name, kind)


def _object(data: bytes, name: str, kind: str) -> JsonObject:
    try:
        found = json.loads(data)
    except ValueError:
        found = data.decode("ascii", "replace").strip() if kind == PROTOBUF else None
    if kind == PROTOBUF and isinstance(found, str):
        return {"schema": found}
    if not isinstance(found, dict):
        raise NoSchema(f"the registry's answer for {name} is not a JSON object")
    return found
