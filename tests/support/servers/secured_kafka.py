"""A real broker behind TLS: one listener for each kind of login, ACLs, and a token endpoint for OAUTHBEARER."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.support.gateway.process import fresh_folder, ports
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import KafkaBroker

USER, PASSWORD = "gateway", "kafka-pass-phrase-7"
PROPERTIES = """\
listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{sasl},SSL://127.0.0.1:{mtls},{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{sasl},SSL://localhost:{mtls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required user_{user}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.\
OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
_REPLACED = ("listeners=", "advertised.listeners=", "listener.security.protocol.map=")


class SecuredKafka(KafkaBroker):
    """`bootstrap` is for the tests' own admin; `sasl` and `mtls` are for the gateway. Topics without ACL are free."""

    def __init__(self) -> None:
        self.folder = fresh_folder("kafka-certs")
        self.authority = Authority(self.folder)
        sasl, mtls = ports(2)
        self.sasl, self.mtls = f"localhost:{sasl}", f"localhost:{mtls}"
        super().__init__()

    def _configured(self, text: str) -> str:
        pair = self.authority.server()
        keystore = self.folder / "keystore.pem"
        keystore.write_bytes(pair.key.read_bytes() + pair.cert.read_bytes())
        listeners = next(line for line in text.splitlines() if line.startswith("listeners="))
        own = PROPERTIES.format(
            port=self.port,
            sasl=self.sasl.partition(":")[2],
            mtls=self.mtls.partition(":")[2],
            controller=listeners.split(",")[1],
            keystore=keystore,
            truststore=self.authority.ca,
            user=USER,
            password=PASSWORD,
        )
        kept = [line for line in text.splitlines() if not line.startswith(_REPLACED)]
        return "\n".join([*kept, own])

    def _users(self) -> Sequence[str]:
        return [
            f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


class TokenEndpoint:
    """Gives unsigned tokens, which the broker takes by default, to whoever shows the client's id and secret."""

    def __init__(self, client: str = USER, secret: str = PASSWORD, lifetime: int = 600) -> None:
        endpoint = self
        self.asked: list[dict[str, list[str]]] = []
        right = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.asked.append(form)
                known = self.headers["Authorization"] == right
                token = {"access_token": _token(client, lifetime), "expires_in": lifetime}
                answer = token if known else {"error": "invalid_client"}
                body = json.dumps(answer).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _token(subject: str, lifetime: int) -> str:
    now = int(time.time())
    claims = {"sub": subject, "iat": now - 10, "exp": now + lifetime, "scope": "kafka"}
    return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(claims)}."
