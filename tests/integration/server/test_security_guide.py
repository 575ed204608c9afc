"""docs/guide/security.md: its policy and commands with real certificates, and the tests that it names."""

from __future__ import annotations

import shutil

from tests.support.cli.guides import Guide, ported, shell
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import fresh_folder, ports
from tests.support.project.named_tests import missing_tests, named_tests
from tests.support.servers.certs import Authority

GUIDE = Guide("security.md")


def test_sensors_send_to_the_address_of_their_name(start_gateway: Gateways, authority: Authority) -> None:
    amqp, http = ports(2)
    folder = fresh_folder("sensors")
    tls = folder / "tls"
    tls.mkdir()
    for name in ("gateway-ca", "sensors-ca"):
        shutil.copy(authority.ca, tls / f"{name}.crt")
    pairs = {"gateway": authority.server(file="guide"), "sensor-17": authority.client("sensor-17", file="sensor-17")}
    for name, pair in pairs.items():
        shutil.copy(pair.cert, tls / f"{name}.crt")
        shutil.copy(pair.key, tls / f"{name}.key")
    policy = folder / "sensors.yaml"
    text = ported(GUIDE.named("sensors.yaml"), {5671: amqp})
    policy.write_text(f'gateway: {{http: "127.0.0.1:{http}", admin: {{listen: off}}}}\n{text}')
    start_gateway(policy)
    command = GUIDE.named("sensor").replace("gateway.example", f"localhost:{amqp}")
    assert "sent 1 message" in shell(command, folder).stderr
    elsewhere = command.replace("telemetry/sensor-17", "telemetry/sensor-18")
    assert "amqp:unauthorized-access" in shell(f"! {elsewhere}", folder).stderr
    assert "allowed" in shell(GUIDE.named("explain"), folder).stdout


def test_the_tests_that_the_guide_names_exist() -> None:
    assert len(named_tests(GUIDE.text)) > 15
    assert list(missing_tests(GUIDE.text)) == []
