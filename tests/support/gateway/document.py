"""A policy as a document that a test changes and writes again: JSON is YAML, and a dict is easy to change."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, Self

from tests.support.gateway.process import ports

EVERYTHING = [{"who": "*", "may": ["send", "receive", "info"], "on": "**"}]


class Document:
    """A gateway with one scope `edge`, where `chat/**` is direct; `edge` is the port of its listener."""

    def __init__(self, **gateway: Any) -> None:
        self.edge, self.http = ports(2)
        self.data: dict[str, Any] = {
            "gateway": {"id": "gw-test", "http": f"127.0.0.1:{self.http}", "drain": "10s", **gateway},
            "scopes": {
                "edge": scope(self.edge, {"match": "chat/**", "direct": "balanced"}),
            },
        }

    def but(self) -> Self:
        """Return a copy to change."""
        return copy.deepcopy(self)

    def scope(self, name: str = "edge") -> dict[str, Any]:
        """Return a scope, to be changed in place."""
        found: dict[str, Any] = self.data["scopes"][name]
        return found

    def add_scope(self, name: str, *addresses: Mapping[str, Any], **listener: Any) -> int:
        """Add a scope with one listener; return its port."""
        (port,) = ports(1)
        self.data["scopes"][name] = scope(port, *addresses, **listener)
        return port

    def add_listener(self, name: str = "edge", **listener: Any) -> int:
        """Add a listener to a scope; return its port."""
        (port,) = ports(1)
        self.scope(name)["listen"].append(listening(port, **listener))
        return port

    def relay(self, *, replies: str = "auto", key: Mapping[str, Any] | None = None) -> int:
        """Add the scope `core`, reached from `edge` as `svc/…`; return its port."""
        core = self.add_scope("core", {"match": "services/**", "direct": "balanced"})
        rule = {"match": "svc/{name}", "relay": "core", "address": "services/{name}", "replies": replies}
        self.scope()["addresses"].append(rule)
        self.data["keys"] = {"active": "one", "ring": {"one": dict(key or {"env": "SCOPEGATE_TEST_KEY"})}}
        return core

    def kafka(self, bootstrap: str, **options: Any) -> None:
        """Make `events/{topic}` of `edge` the topics of a cluster `main`."""
        self.data["kafka"] = {"main": {"bootstrap": bootstrap, **options}}
        self.scope()["addresses"].append({"match": "events/{topic}", "kafka": "main", "topic": "{topic}"})

    def connector(
        self, port: int, name: str = "broker", *, scope: str = "edge", replies: str = "none", **options: Any
    ) -> None:
        """Add a connector to a scope, reached as `queues/…`."""
        backoff = {"min": "50ms", "max": "200ms"}
        made = {"name": name, "to": f"amqp://127.0.0.1:{port}", "backoff": backoff, **options}
        self.scope(scope).setdefault("connect", []).append(made)
        self.scope(scope)["addresses"].append({"match": "queues/**", "relay": name, "replies": replies})

    @property
    def text(self) -> str:
        """The policy file."""
        return json.dumps(self.data, indent=2)

    def line_of(self, pattern: str) -> int:
        """Return the line of the policy file where a pattern is first found."""
        return next(n for n, line in enumerate(self.text.splitlines(), 1) if re.search(pattern, line))


def scope(port: int, *addresses: Mapping[str, Any], **listener: Any) -> dict[str, Any]:
    """Return a scope where everybody may do everything."""
    return {
        "listen": [listening(port, **listener)],
        "addresses": [dict(each) for each in addresses],
        "access": copy.deepcopy(EVERYTHING),
    }


def listening(port: int, **listener: Any) -> dict[str, Any]:
    """Return a listener of the loopback interface, ANONYMOUS unless told otherwise."""
    return {"bind": f"127.0.0.1:{port}", "sasl": ["anonymous"], **listener}
