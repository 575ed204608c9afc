"""What deploy/ holds is sound as far as it can be known without a container engine or systemd as process 1."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from gateway import __version__
from policies.load.loader import load_policy
from tests.support.project import dockerfile
from tests.support.project.parts import ROOT

DEPLOY = ROOT / "deploy"
IMAGE = re.compile(r"[a-z][a-z0-9/-]*:v?\d+\.\d+[a-z0-9.-]*")
"""A name without a host and a tag with a version."""


def compose() -> Any:
    """Return the compose file."""
    return YAML(typ="safe").load((DEPLOY / "compose.yaml").read_text())


def policy() -> Any:
    """Return the policy of the compose file."""
    key = {"SCOPEGATE_KEY": "QUFB" * 11}
    return load_policy(DEPLOY / "config" / "policy.yaml", environ=key, read_bytes=Path.read_bytes)


def port(bind: Any) -> int:
    """Return the port of a listening address."""
    return int(str(bind).rpartition(":")[2])


# -- the image


def test_base_images_are_pinned_and_name_no_host() -> None:
    for stage in dockerfile.stages():
        image = stage[0].value.split(" AS ")[0]
        assert IMAGE.fullmatch(image), image
    assert len({stage[0].value.split(" AS ")[0] for stage in dockerfile.stages()}) == 1


def test_the_compiler_stays_in_the_first_stage_and_nothing_runs_as_root() -> None:
    build, final = dockerfile.stages()
    assert "gcc" in " ".join(dockerfile.values(build, "RUN"))
    assert "apt-get" not in " ".join(dockerfile.values(final, "RUN"))
    user = dockerfile.values(final, "USER")
    assert user == ["10001:10001"], "a number, so that an orchestrator can see that it is not root"
    names = [instruction.name for instruction in final]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("RUN", "COPY"))


def test_package_lists_are_removed_and_nothing_recommended_is_installed() -> None:
    for stage in dockerfile.stages():
        for command in dockerfile.values(stage, "RUN"):
            if "apt-get install" in command:
                assert "--no-install-recommends" in command
                assert command.endswith("rm -rf /var/lib/apt/lists/*")


def test_python_packages_come_with_hashes() -> None:
    build, _ = dockerfile.stages()
    installs = [command for command in dockerfile.values(build, "RUN") if "pip install" in command]
    assert len(installs) == 3
    assert all("--require-hashes" in command or command.endswith("--no-deps .") for command in installs)


def test_what_is_copied_is_in_the_context() -> None:
    build, _ = dockerfile.stages()
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for value in dockerfile.values(build, "COPY") for source in value.split()[:-1]}
    assert copied == allowed
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_the_final_stage_starts_the_gateway_and_asks_for_its_health() -> None:
    _, final = dockerfile.stages()
    assert json.loads(dockerfile.values(final, "ENTRYPOINT")[0]) == ["scopegate"]
    command = json.loads(dockerfile.values(final, "CMD")[0])
    assert command == ["run", f"{mounted_folder()}/policy.yaml"]
    check = dockerfile.values(final, "HEALTHCHECK")[0]
    assert json.loads(check.partition("CMD ")[2]) == ["scopegate", "health", "--live", command[1]]


# -- compose


GATEWAYS = ("gateway-1", "gateway-2")


def mounted_folder() -> str:
    """Return where the folder of the policy is in a gateway of the compose file."""
    (volume,) = compose()["services"]["gateway-1"]["volumes"]
    source, folder, mode = volume.split(":")
    assert (DEPLOY / source / "policy.yaml").is_file(), "a folder is mounted: a file that is replaced is noticed"
    assert mode == "ro"
    return str(folder)


def test_the_policy_of_the_compose_file_has_no_mistake_and_fits_it() -> None:
    loaded, services = policy(), compose()["services"]
    binds = [listener.bind for scope in loaded.model.scopes.values() for listener in scope.listen]
    wanted = {port(bind) for bind in [*binds, loaded.model.gateway.http]}
    published = [entry for name in GATEWAYS for entry in services[name]["ports"]]
    assert len({entry.rpartition(":")[0] for entry in published}) == len(published) == 2 * len(wanted)
    assert {int(entry.rpartition(":")[2]) for entry in published} == wanted
    advertised = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert advertised == f"PLAINTEXT://{loaded.model.kafka['main'].bootstrap}"
    assert loaded.model.gateway.state == "redis://redis:6379/0"
    variable = loaded.model.keys.ring[loaded.model.keys.active].env
    for name in GATEWAYS:
        assert services[name]["environment"][variable].startswith("${" + variable + ":?")


def test_compose_images_are_pinned_and_open_access_stays_on_this_machine() -> None:
    services = compose()["services"]
    assert [service["image"] for service in services.values() if not IMAGE.fullmatch(service["image"])] == []
    published = [entry for service in services.values() for entry in service.get("ports", ())]
    assert len(published) == 8
    assert all(entry.startswith("127.0.0.1:") for entry in published)
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    for name in GATEWAYS:
        build = services[name]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == dockerfile.PATH
        assert (services[name]["read_only"], services[name]["cap_drop"]) == (True, ["ALL"])


def test_the_tag_of_the_image_is_that_of_this_version() -> None:
    tag = ".".join(__version__.split(".")[:2])
    kustomization = YAML(typ="safe").load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    assert [image["newTag"] for image in kustomization["images"]] == [tag]
    assert {compose()["services"][name]["image"] for name in GATEWAYS} == {f"scopegate:{tag}"}
    assert f"-t scopegate:{tag} " in dockerfile.PATH.read_text()


def test_every_folder_that_is_mounted_is_there() -> None:
    services = compose()["services"]
    mounts = [volume.split(":") for service in services.values() for volume in service.get("volumes", ())]
    folders = [DEPLOY / source for source, *_ in mounts if source.startswith(".")]
    assert len(folders) == 5
    assert all(folder.is_dir() for folder in folders)


def test_prometheus_scrapes_both_gateways_and_grafana_finds_the_dashboard(promtool: str) -> None:
    settings = YAML(typ="safe").load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (job,) = settings["scrape_configs"]
    http = policy().model.gateway.http.port
    assert job["job_name"] == "scopegate", "the alert rules name this job"
    assert job["static_configs"][0]["targets"] == [f"{name}:{http}" for name in GATEWAYS]
    done = subprocess.run(
        [promtool, "check", "config", str(DEPLOY / "prometheus" / "prometheus.yaml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (provider,) = YAML(typ="safe").load((DEPLOY / "grafana/provisioning/dashboards/scopegate.yaml").read_text())[
        "providers"
    ]
    mounted = dict(volume.split(":")[:2] for volume in compose()["services"]["grafana"]["volumes"])
    assert (DEPLOY / "grafana" / "scopegate.json").is_file()
    assert mounted["./grafana"] == provider["options"]["path"]


def test_a_drain_ends_before_it_is_cut_off() -> None:
    drain = policy().model.gateway.drain.seconds + policy().model.gateway.drain_delay.seconds
    for name in GATEWAYS:
        assert int(compose()["services"][name]["stop_grace_period"].removesuffix("s")) > drain
    assert int(unit()["Service"]["TimeoutStopSec"].removesuffix("s")) > drain


# -- systemd


UNIT = DEPLOY / "systemd" / "scopegate.service"


def unit() -> configparser.ConfigParser:
    """Return the unit; a key given twice is an error."""
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def test_the_unit_serves_reloads_and_gives_away_no_rights() -> None:
    service = unit()["Service"]
    assert service["ExecStart"] == "/opt/scopegate/bin/scopegate run /etc/scopegate/policy.yaml"
    assert (service["Type"], service["NotifyAccess"]) == ("notify-reload", "main")
    assert "ExecReload" not in service, "systemd sends SIGHUP itself, and waits for the answer"
    assert service["CapabilityBoundingSet"] == ""
    for key in ("NoNewPrivileges", "PrivateDevices", "ProtectHome"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    user = (UNIT.parent / "scopegate.sysusers").read_text().splitlines()[-1].split()[1]
    assert service["User"] == service["Group"] == service["RuntimeDirectory"] == user


def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    """Where systemd is installed, it is asked; it only warns of a key that it does not know."""
    verify = shutil.which("systemd-analyze")
    known = unit()
    assert known.sections() == ["Unit", "Service", "Install"]
    if verify is None:
        return
    text = UNIT.read_text().replace("/opt/scopegate/bin/scopegate", "/bin/true")
    version = subprocess.run([verify, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if int(version.partition(".")[0]) < 253:
        text = text.replace("Type=notify-reload", "Type=notify")
    copy = tmp_path / "scopegate.service"
    copy.write_text(text)
    result = subprocess.run([verify, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
