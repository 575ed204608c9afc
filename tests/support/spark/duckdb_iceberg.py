"""duckdb's own reader of Iceberg, in a process of its own: the suite's duckdb is newer than the extension."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive
from tests.support.gateway.process import PATIENCE
from tests.support.project.parts import folder
from tests.support.servers.object_store import KEY, SECRET


def queried(archive: Archive, query: str) -> list[Any]:
    """The rows of a query in which `events` is the table of the archive."""
    return answered(archive.path, query.replace("events", f"iceberg_scan('{archive.path}/_iceberg')"))


def answered(path: StoragePath, *statements: str) -> list[Any]:
    """The rows of the last of these statements, with the extensions and the secret for the store of a path."""
    statements = (*_secrets(path), *statements)
    program = [sys.executable, str(Path(__file__).with_name("iceberg_query.py")), *statements]
    own = {**os.environ, "PYTHONPATH": str(folder("duckdb-iceberg"))}
    done = subprocess.run(program, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[Any] = json.loads(done.stdout)
    return rows


def _secrets(path: StoragePath) -> list[str]:
    if not isinstance(path, ObjectPath):
        return []
    place = str(path.settings.endpoint).removeprefix("http://")
    keys = f"KEY_ID '{KEY}', SECRET '{SECRET}'"
    return [f"CREATE SECRET (TYPE s3, {keys}, ENDPOINT '{place}', URL_STYLE 'path', USE_SSL false)"]
