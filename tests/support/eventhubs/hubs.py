"""A gateway for unmodified clients of Azure Event Hubs: its listener, connection strings, tokens and topics."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import quote

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports
from tests.support.servers.certs import Pair
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.kafka import KafkaBroker

KEYS = {"app": "a2V5IG9mIHRoZSBhcHBsaWNhdGlvbg==", "guest": "a2V5IG9mIGEgZ3Vlc3Q="}
"""The secrets of the keys `app` and `guest`, whose users have the same names; the guest may only receive."""


def sas(resource: str, *, key: str = "app", secret: str | None = None, seconds: float = 3600) -> str:
    """A token as clients make them."""
    escaped, expiry = quote(resource, safe=""), int(time.time() + seconds)
    signed = f"{escaped}\n{expiry}".encode()
    digest = hmac.digest((secret or KEYS[key]).encode(), signed, hashlib.sha256)
    return f"SharedAccessSignature sr={escaped}&sig={quote(base64.b64encode(digest), safe='')}&se={expiry}&skn={key}"


class HubGateway:
    """One gateway with an embedded Kafka; `hub()` is an event hub that nobody has used."""

    def __init__(
        self, start: Gateways, *, tls: Pair | None = None, at: KafkaBroker | None = None,
        websocket: str | None = None, client: Mapping[str, str] | None = None, **hubs: str,
    ) -> None:  # fmt: skip
        """`tls`: the listener's certificate; `at`: a broker in place of the embedded Kafka, which survives a restart.

        `websocket`: the path, for AMQP over WebSockets; `client`: settings of Kafka's client; `hubs`: further
        settings of the dialect.
        """
        self.kafka = EmbeddedKafka()
        self._topics = iter(topics := {f"hub-{number}": 3 for number in range(40)})
        document = self.document = Document()
        cluster = {"bootstrap": "embedded", "topics": topics} if at is None else {"bootstrap": at.bootstrap}
        document.data["kafka"] = {"main": cluster | ({"client": dict(client)} if client else {})}
        scope = document.scope()
        keys = [{"name": name, "user": name, "env": f"{name.upper()}_KEY"} for name in KEYS]
        (self.plain,) = ports(1)
        self.port = document.edge
        scope["listen"][0].update(dialect="eventhubs", event_hubs={"address": "events/{hub}", "keys": keys, **hubs})
        if websocket is not None:
            scope["listen"][0]["websocket"] = websocket
        if tls is not None:
            scope["listen"][0]["tls"] = {"cert": str(tls.cert), "key": str(tls.key)}
        scope["listen"].append({"bind": f"127.0.0.1:{self.plain}"})
        rule = {"match": "events/{topic}", "kafka": "main", "topic": "{topic}", "equal_epoch": "displace"}
        scope["addresses"].append(rule)
        scope["access"] = [
            {"who": "app", "may": ["send", "receive"], "on": "events/**"},
            {"who": "guest", "may": ["receive"], "on": "events/**"},
            {"who": "anonymous", "may": ["send", "receive", "info"], "on": "events/**"},
        ]
        self._start = start
        self.gateway = self.start()

    def start(self) -> Gateway:
        """Start the gateway."""
        env = {f"{name.upper()}_KEY": secret for name, secret in KEYS.items()}
        self.gateway = self._start(self.document.text, env=env)
        if "topics" in self.document.data["kafka"]["main"]:
            self.kafka.found(self.gateway)
        return self.gateway

    def hub(self) -> str:
        """The name of an event hub of three partitions."""
        return next(self._topics)

    def connection(self, key: str = "app", secret: str | None = None) -> str:
        """The connection string, as the guide says it."""
        shared = f"SharedAccessKeyName={key};SharedAccessKey={secret or KEYS[key]}"
        return f"Endpoint=sb://127.0.0.1:{self.port};{shared};UseDevelopmentEmulator=true"

    def resource(self, hub: str) -> str:
        """The resource of a token for a hub."""
        return f"sb://127.0.0.1:{self.port}/{hub}"
