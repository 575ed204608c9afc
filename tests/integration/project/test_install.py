"""`pip install .` from the locks in a clean environment gives the command: the very steps of the container image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from tests.support.gateway.process import PATIENCE, Process, fresh_folder, ports, wait_until
from tests.support.project import dockerfile
from tests.support.project.parts import ROOT

IMAGE_PLACE = "/opt/scopegate"
POLICY = """
gateway: {{id: installed, http: "127.0.0.1:{http}"}}
scopes:
  edge: {{listen: [{{bind: "127.0.0.1:{amqp}"}}], addresses: [{{match: "**", direct: balanced}}]}}
"""


def clean_environment() -> dict[str, str]:
    """Return the environment without anything of the project or its own virtual environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run_step(command: str, folder: Path) -> None:
    """Run a RUN instruction with this Python instead of the image's, below `folder`."""
    here = command.replace("python3 ", f"{sys.executable} ").replace(IMAGE_PLACE, str(folder / "opt"))
    result = subprocess.run(
        here, shell=True, cwd=folder / "src", env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{here}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"


def copy(value: str, folder: Path) -> None:
    """Do what a COPY instruction does."""
    *sources, target = value.split()
    for source in sources:
        path = ROOT / source
        if path.is_dir():
            shutil.copytree(path, folder / "src" / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / "src" / target)


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The folder of the commands, after every step of the first stage but apt's."""
    folder = fresh_folder("install")
    (folder / "src").mkdir()
    build, _ = dockerfile.stages()
    for name, value in build:
        if name == "COPY":
            copy(value, folder)
        elif name == "RUN" and "apt-get" not in value:
            run_step(value, folder)
    yield folder / "opt" / "bin"
    shutil.rmtree(folder)


def scopegate(installed: Path, *arguments: str) -> str:
    """Return the output of the installed command, run elsewhere than in the project."""
    command = [str(installed / "scopegate"), *arguments]
    return subprocess.run(
        command, cwd="/", env=clean_environment(), capture_output=True, text=True, check=True, timeout=3 * PATIENCE
    ).stdout


def test_the_command_is_there_and_knows_its_version(installed: Path) -> None:
    assert scopegate(installed, "version") == f"scopegate {gateway.__version__}\n"


def test_the_examples_and_the_schema_are_installed(installed: Path) -> None:
    found = next(installed.parent.glob("lib/python*/site-packages/policies/examples/boundary.yaml"))
    assert scopegate(installed, "check", "--no-secrets", str(found)).startswith("ok:")
    assert (found.parent / "quickstart.yaml").exists()
    assert json.loads(scopegate(installed, "schema")) == json.loads((ROOT / "policies/schema.json").read_text())


def test_it_serves_and_the_health_check_of_the_image_tells(installed: Path) -> None:
    amqp, http = ports(2)
    path = fresh_folder("installed") / "policy.yaml"
    path.write_text(POLICY.format(amqp=amqp, http=http))
    _, final = dockerfile.stages()
    check = json.loads(dockerfile.values(final, "HEALTHCHECK")[0].partition("CMD ")[2])
    check = [str(installed / check[0]), *(str(path) if part.endswith(".yaml") else part for part in check[1:])]

    def healthy() -> bool:
        return subprocess.run(check, env=clean_environment(), capture_output=True, check=False).returncode == 0

    assert not healthy()
    process = Process("installed", [str(installed / "scopegate"), "run", str(path)], env={"PYTHONPATH": ""})
    try:
        wait_until(healthy, "the health check to succeed")
        assert process.end() == 0
    finally:
        process.discard()
