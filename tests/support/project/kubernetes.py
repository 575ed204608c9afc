"""The files of deploy/kubernetes as kustomize renders them, and their check against the schemas of Kubernetes.

The validator has dependencies of other versions than the suite, so it runs in a process of its own:
`python -m tests.support.project.kubernetes` reads resources as JSON and prints their mistakes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.project import parts

FOLDER = parts.ROOT / "deploy" / "kubernetes"
VERSION = "1.30"
"""The oldest version of Kubernetes that the files are checked for; the newest of the package is the other."""
_MONITOR = "ServiceMonitor"


def rendered() -> list[dict[str, Any]]:
    """The resources that `kubectl apply -k` would apply."""
    kustomize = str(parts.folder("kustomize") / "kustomize")
    done = subprocess.run([kustomize, "build", str(FOLDER)], capture_output=True, text=True, check=True)
    return [dict(each) for each in YAML(typ="safe").load_all(done.stdout)]


def mistakes(resources: list[dict[str, Any]], version: str | None = None) -> list[str]:
    """What the schemas say against resources, for a version of Kubernetes; None: the newest that is known."""
    crd = YAML(typ="safe").load((parts.folder("kustomize") / "servicemonitors.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    given = json.dumps({"resources": resources, "version": version, "monitor": schema})
    command = [sys.executable, str(Path(__file__).resolve()), str(parts.folder("kubernetes"))]
    env = {**os.environ, "PYTHONPATH": str(parts.ROOT)}
    done = subprocess.run(command, input=given, env=env, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def _check(folder: str) -> None:
    sys.path.insert(0, folder)
    import jsonschema  # type: ignore[import-untyped,unused-ignore]
    import kubernetes_validate  # type: ignore[import-not-found,unused-ignore]

    given = json.load(sys.stdin)
    version, found = given["version"] or kubernetes_validate.latest_version(), []
    for resource in given["resources"]:
        name = f"{resource['kind']} {resource['metadata']['name']}"
        if resource["kind"] == _MONITOR:
            errors = jsonschema.Draft7Validator(given["monitor"]).iter_errors(resource)
            found += [f"{name}: {error.message}" for error in errors]
            continue
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except Exception as error:  # whatever it says is against the resource
            found.append(f"{name}: {error}")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _check(sys.argv[1])
