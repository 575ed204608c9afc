"""deploy/kubernetes: kustomize renders it, the schemas of Kubernetes accept it, and it fits policy and image."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from policies.load.loader import load_policy
from tests.support.project import dockerfile
from tests.support.project.kubernetes import FOLDER, VERSION, mistakes, rendered


@pytest.fixture(scope="module")
def resources() -> list[dict[str, Any]]:
    """What is applied."""
    return rendered()


def of_kind(resources: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in resources if each["kind"] == kind]
    return found


def container(resources: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = of_kind(resources, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("version", [VERSION, None])
def test_the_schemas_accept_every_resource(resources: list[dict[str, Any]], version: str | None) -> None:
    kinds = sorted(each["kind"] for each in resources)
    assert kinds == ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceMonitor"]
    assert mistakes(resources, version) == []
    broken = copy.deepcopy(resources)
    container(broken)["readinessProb"] = {}
    of_kind(broken, "ServiceMonitor")["spec"]["endpoints"] = "all"
    of_kind(broken, "PodDisruptionBudget")["spec"]["minAvailable"] = []
    assert len(mistakes(broken, version)) == 3


def test_two_replicas_of_which_one_stays(resources: list[dict[str, Any]]) -> None:
    deployment = of_kind(resources, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert of_kind(resources, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        of_kind(resources, "Service")["spec"]["selector"],
        of_kind(resources, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(resources, "ServiceMonitor")["spec"]["selector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels.items()


def test_the_policy_has_no_mistake_and_fits_the_pod(resources: list[dict[str, Any]]) -> None:
    policy = of_kind(resources, "ConfigMap")["data"]["policy.yaml"]
    assert policy == (FOLDER / "policy.yaml").read_text()

    def read(path: Path) -> bytes:
        return b"QUFB" * 11 if path.name == "2026-11" else path.read_bytes()

    loaded = load_policy(FOLDER / "policy.yaml", environ={}, read_bytes=read)
    gateway, pod = loaded.model.gateway, container(resources)
    ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
    assert gateway.http is not None
    assert ports == {"http": gateway.http.port, "amqp": loaded.model.scopes["edge"].listen[0].bind.port}
    grace = of_kind(resources, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > gateway.drain.seconds + gateway.drain_delay.seconds
    noticed = pod["readinessProbe"]["periodSeconds"] * pod["readinessProbe"]["failureThreshold"]
    assert gateway.drain_delay.seconds > noticed
    mounts = {mount["name"]: mount for mount in pod["volumeMounts"]}
    assert all("subPath" not in mount for mount in mounts.values()), "a file that is mounted alone never changes"
    key = loaded.model.keys.ring[loaded.model.keys.active].file
    assert str(key).startswith(mounts["keys"]["mountPath"])
    command = json.loads(dockerfile.values(dockerfile.stages()[-1], "CMD")[0])
    assert pod["args"] == command


def test_the_pod_has_no_privilege_and_the_user_of_the_image(resources: list[dict[str, Any]]) -> None:
    pod = of_kind(resources, "Deployment")["spec"]["template"]["spec"]
    user = dockerfile.values(dockerfile.stages()[-1], "USER")[0]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == user
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container(resources)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {probe: container(resources)[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} == {
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
