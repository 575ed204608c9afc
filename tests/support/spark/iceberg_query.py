"""Run statements with a duckdb of its own and its extensions, and print the rows of the last one as JSON.

The packages are on PYTHONPATH; duckdb fetches nothing.
"""

import glob
import json
import os
import sys

import duckdb

connection = duckdb.connect(config={"autoinstall_known_extensions": False})
for name in ("avro", "httpfs", "iceberg"):
    package = f"{os.environ['PYTHONPATH']}/duckdb_extension_{name}"
    (path,) = glob.glob(f"{package}/**/{name}.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
for statement in sys.argv[1:]:
    found = connection.execute(statement)
print(json.dumps(found.fetchall(), default=lambda value: value.hex() if isinstance(value, bytes) else str(value)))
