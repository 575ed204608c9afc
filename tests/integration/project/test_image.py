"""The container image is built without a registry, and serves read-only, without capabilities and as nobody special."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp.links import passes, receiving, sending
from tests.support.gateway.process import fresh_folder, ports, wait_until
from tests.support.project import image

pytestmark = pytest.mark.soak
POLICY = """
gateway: {{id: image, http: "127.0.0.1:{http}", drain: 5s}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{amqp}"}}]
    addresses: [{{match: "{match}", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


@pytest.fixture(scope="module")
def built() -> Iterator[None]:
    """The image; minutes the first time."""
    image.install_commands()
    image.make_base()
    image.build()
    yield
    image.remove()


def answer(http: int, path: str) -> str:
    """What the gateway answers; empty if it does not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}{path}", timeout=5) as response:
            text: str = response.read().decode()
            return text
    except OSError:
        return ""


def write(folder: Path, amqp: int, http: int, match: str) -> None:
    """Replace the policy, as an editor or a config map does."""
    beside = folder / "next.yaml"
    beside.write_text(POLICY.format(amqp=amqp, http=http, match=match))
    beside.chmod(0o644)
    beside.replace(folder / "policy.yaml")


@pytest.mark.usefixtures("built")
def test_the_image_serves_without_any_privilege() -> None:
    amqp, http = ports(2)
    folder = fresh_folder("image")
    folder.chmod(0o755)
    write(folder, amqp, http, "first/**")
    with image.running(folder) as name:
        wait_until(lambda: answer(http, "/readyz"), "the gateway in the container to be ready")
        passes(*reversed((receiving(amqp, "first/a"), sending(amqp, "first/a"))))
        write(folder, amqp, http, "second/**")
        wait_until(lambda: 'scopegate_reloads_total{result="ok"} 1' in answer(http, "/metrics"), "the new policy")
        passes(*reversed((receiving(amqp, "second/a"), sending(amqp, "second/a"))))
        assert image.podman("exec", name, "scopegate", "health", "/etc/scopegate/policy.yaml") == "ready"
        status = image.podman("exec", name, "cat", "/proc/1/status")
        facts = dict(line.split(":", 1) for line in status.splitlines())
        assert facts["Uid"].split() == ["10001"] * 4
        assert {facts[f"Cap{kind}"].strip() for kind in ("Eff", "Prm", "Bnd", "Amb")} == {"0" * 16}
        assert facts["NoNewPrivs"].strip() == "1"
        for refused in (["touch", "/opt/scopegate/x"], ["touch", "/tmp/x"], ["gcc", "--version"]):
            with pytest.raises(AssertionError):
                image.podman("exec", name, *refused)
        image.podman("stop", "--time=20", name)
        assert image.podman("inspect", "--format={{.State.ExitCode}}", name) == "0"
