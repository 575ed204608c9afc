"""How a connector logs in: with a password that is wrong, and to a second gateway by TLS and SCRAM."""

from __future__ import annotations

import pytest

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.integration.connectors.test_remote_peer import ENV, start
from tests.support.amqp.messages import message
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import fresh_folder, ports, wait_until
from tests.support.servers.certs import Authority
from tests.support.servers.servers import Artemis


def test_a_wrong_password_is_named_by_readyz(start_gateway: Gateways, artemis: Artemis) -> None:
    more = ", sasl: {mechanism: plain, user: admin, password: {env: WRONG_PASSWORD}}, allow_plain_without_tls: true"
    _, gateway = start(start_gateway, artemis.url, more, ready=False)
    gateway.wait_log("connector down")
    wait_until(lambda: "authentication failed" in gateway.get("/readyz")[1], "/readyz to say so")
    text = gateway.get("/readyz")[1]
    assert ENV["WRONG_PASSWORD"] not in gateway.process.text() + text


SECOND = """
gateway: {{id: gw-second, http: "127.0.0.1:{http}", log: json}}
scopes:
  far:
    listen:
      - bind: "127.0.0.1:{port}"
        sasl: [scram-sha-256, scram-sha-512]
        users: users.yaml
        tls: {{cert: "{cert}", key: "{key}"}}
    addresses: [{{match: "far/**", direct: balanced}}]
    access: [{{who: gate, may: [send, receive], on: "**"}}]
"""


@pytest.mark.parametrize("mechanism", ["scram-sha-256", "scram-sha-512"])
def test_to_a_second_gateway_by_tls_and_scram(start_gateway: Gateways, authority: Authority, mechanism: str) -> None:
    folder, (port, http) = fresh_folder("second"), ports(2)
    (folder / "users.yaml").write_text(put_user("", "gate", make_entry("wonderland", salt=b"salt of a test!!")))
    pair = authority.server()
    (folder / "policy.yaml").write_text(SECOND.format(port=port, http=http, cert=pair.cert, key=pair.key))
    second = start_gateway(folder / "policy.yaml")
    more = (
        f", sasl: {{mechanism: {mechanism}, user: gate, password: {{env: FAR_PASSWORD}}}}, tls: {{ca: {authority.ca}}}"
    )
    edge, gateway = start(start_gateway, f"amqps://localhost:{port}", more)
    inbox = Inbox(edge, "far/one")
    outbox = Outbox(edge, "far/one")
    outbox.credit()
    assert outbox.send_and_accept(message(b"through two"), inbox).matches("accepted")
    assert second.wait_log("connection open", user="gate")["container"] == "gw-scripted"
    for each in (gateway, second):
        assert ENV["FAR_PASSWORD"] not in each.process.text()
