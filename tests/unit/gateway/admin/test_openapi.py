"""The published description of the admin API names every operation, and nothing else."""

from __future__ import annotations

import json
import re

from gateway.admin.handlers.application import HANDLERS
from gateway.admin.openapi.description import openapi
from gateway.admin.openapi.operations import OPERATIONS, PARAMETERS
from tests.support.project.parts import ROOT


def test_every_handler_is_described() -> None:
    assert OPERATIONS.keys() == {(method, path) for method, path, _ in HANDLERS}
    used = {name for operation in OPERATIONS.values() for name in operation.query}
    used |= {name for _, path in OPERATIONS for name in re.findall(r"\{(\w+)\}", path)}
    assert used == PARAMETERS.keys()


def test_every_reference_leads_somewhere() -> None:
    document = openapi()
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(document)):
        assert name in document["components"][kind]
    ids = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(set(ids)) == len(OPERATIONS)


def test_the_published_file_is_current() -> None:
    again = "run `scopegate schema --openapi > docs/openapi.json`"
    assert json.loads((ROOT / "docs/openapi.json").read_text()) == openapi(), again
