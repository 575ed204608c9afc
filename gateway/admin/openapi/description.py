"""The OpenAPI document, made of the operations and the shapes."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue, models_json_schema

from gateway.admin.openapi.operations import OPERATIONS, PARAMETERS, Operation
from gateway.admin.openapi.shapes import RefusedRequest
from policies.values.base import SectionSchema

_PLACE: Final = "#/components/schemas/{model}"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_TEXT: Final = (
    "Requests at a port need a token (Authorization: Bearer), the cookie of a session, or a client certificate; at the "
    "unix socket, root and the user of the gateway are known by the system. An unknown parameter is refused."
)
_REFUSALS: Final = {
    "400": "a parameter or body that cannot be used",
    "401": "nobody who is known",
    "403": "the role does not allow it, or the request is of a page of another origin",
    "404": "nothing has this name or id",
    "421": "the Host is no name of the gateway",
    "429": "too many wrong tokens, or too many event streams of one caller",
    "503": "a backend does not answer, or there are too many streams",
}


@cache
def openapi() -> JsonSchemaValue:
    """The whole document, version 3.1."""
    models: list[type[BaseModel]] = [RefusedRequest]
    models += [each for operation in OPERATIONS.values() for each in _models(operation)]
    wanted: list[tuple[type[BaseModel], Literal["serialization"]]] = [
        (each, "serialization") for each in dict.fromkeys(models)
    ]
    _, schema = models_json_schema(wanted, ref_template=_PLACE, schema_generator=SectionSchema)
    paths: dict[str, dict[str, object]] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ScopeGate admin API", "version": "1", "description": _TEXT},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schema["$defs"],
            "responses": {
                code: {"description": text, "content": _json(_ref(RefusedRequest))} for code, text in _REFUSALS.items()
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "scopegate-PORT"},
            },
        },
    }


def _models(operation: Operation) -> list[type[BaseModel]]:
    found = (operation.answer, operation.paged, operation.refused, operation.body)
    return [each for each in found if each is not None]


def _operation(method: str, path: str, operation: Operation) -> JsonSchemaValue:
    own = re.findall(r"\{(\w+)\}", path)
    parameters = [_parameter(name, "path") for name in own] + [_parameter(name, "query") for name in operation.query]
    answers = {str(operation.status): {"description": operation.summary, "content": _content(path, operation)}}
    if operation.refused is not None:
        answers["409"] = {"description": "the policy file has mistakes", "content": _json(_ref(operation.refused))}
    refusals = {code: {"$ref": f"#/components/responses/{code}"} for code in _REFUSALS}
    found: JsonSchemaValue = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{path.removesuffix('.json')}").strip("_"),
        "summary": operation.summary,
        "parameters": parameters,
        "responses": answers | refusals,
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": _json(_ref(operation.body))}
    return found


def _parameter(name: str, place: str) -> JsonSchemaValue:
    text = "the id in the list" if place == "path" and name == "id" else PARAMETERS[name]
    kind = {"type": "integer", "minimum": 1, "maximum": 1000} if name == "limit" else {"type": "string"}
    return {"name": name, "in": place, "required": place == "path", "description": text, "schema": kind}


def _content(path: str, operation: Operation) -> JsonSchemaValue:
    if path == "/events":
        return {_EVENTS: {"schema": {"type": "string"}}}
    forms = [] if operation.answer is None else [_ref(operation.answer)]
    if operation.paged is not None:
        forms.insert(0, _page(operation.paged))
    return _json(forms[0] if len(forms) == 1 else {"anyOf": forms} if forms else {"type": "object"})


def _page(item: type[BaseModel]) -> JsonSchemaValue:
    place = {"type": ["string", "null"]}
    properties = {"items": {"type": "array", "items": _ref(item)}, "next": place, "total": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _ref(model: type[BaseModel]) -> JsonSchemaValue:
    return {"$ref": _PLACE.format(model=model.__name__)}


def _json(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {_JSON: {"schema": schema}}
