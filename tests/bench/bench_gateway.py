"""The gateway under measurement: one process, two scopes, a policy for all cases."""

from __future__ import annotations

import os
import time
import tomllib
from pathlib import Path

from tests.support.gateway.gateway import Gateway, written
from tests.support.gateway.process import Process, ports
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Pair

POLICY = """\
gateway: {{id: bench, http: "127.0.0.1:{http}"{journal}{admin}}}
keys: {{active: bench, ring: {{bench: {{env: SCOPEGATE_BENCH_KEY}}}}}}
{kafka}
scopes:
  edge:
    listen:
      - bind: "127.0.0.1:{edge}"
        sasl: [anonymous]
        limits: {{connections: 20000, links: 20000, opens_per_second: 100000, idle_timeout: 30m}}
      {edge_tls}
    addresses:
      - {{match: "direct/**", direct: balanced}}
      - {{match: "relay/{{name}}", relay: core, address: "direct/{{name}}", replies: none}}
      - {{match: "broker/{{name}}", relay: core, replies: none}}
      - {{match: "plain/{{name}}", relay: core, address: "services/{{name}}", replies: none}}
      - {{match: "cookie/{{name}}", relay: core, address: "services/{{name}}", replies: cookie}}
      - {{match: "rewrite/{{name}}", relay: core, address: "services/{{name}}", replies: rewrite}}
      {events}
    access: [{{who: "*", may: [send, receive, info], on: "**"}}]
  core:
    listen:
      - {{bind: "127.0.0.1:{core}", sasl: [anonymous]}}
      {core_tls}
    {connect}
    addresses:
      - {{match: "direct/**", direct: balanced}}
      - {{match: "services/**", direct: balanced}}
      {remote}
      - {{match: "home/{{name}}", relay: edge, address: "direct/{{name}}", replies: none}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
KAFKA = 'kafka: {{main: {{bootstrap: "{bootstrap}"{topics}}}}}'
# As many in flight as the bench's consumers ask for: at the default of 1000 both sides wait for each other.
EVENTS = '''\
- {match: "events/{topic}", kafka: main, topic: "{topic}", credit: 5000}
      - {match: "shared/{topic}", kafka: main, topic: "{topic}", credit: 5000, group_mode: shared, surplus: pend}'''
SECURED = '- {{bind: "127.0.0.1:{port}", sasl: [anonymous], tls: {{cert: "{pair.cert}", key: "{pair.key}"}}}}'
CONNECT = 'connect: [{{name: broker, to: "amqp://{remote}", sasl: {{mechanism: anonymous}}}}]'
REMOTE = '- {match: "broker/{name}", relay: broker, address: "{name}"}'
SECRET = {"SCOPEGATE_BENCH_KEY": "bench-key-of-no-value-0123456789abcdefghijk"}

TREE = "SCOPEGATE_BENCH_TREE"
"""The work tree whose gateway is measured, in place of this one (`against`)."""


def script(tree: Path) -> str:
    """What the `scopegate` script of a work tree does: its modules may have other names than those of here."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["scopegate"].partition(":")
    return f"from {module} import {name}; {name}()"


class BenchGateway(Gateway):
    """`scopegate run` on free ports; `start_seconds` is the time from its command to ready."""

    looks = 0.002

    def __init__(
        self,
        bootstrap: str | None = None,
        journal: str | None = None,
        *,
        tls: Pair | None = None,
        topics: str = "",
        admin: str | None = None,
        remote: str | None = None,
    ) -> None:
        """`journal`: what its policy says of a journal beside the cluster, such as `sample: 100`.

        `tls`: the certificate of a second listener of each scope. `topics`: those of an embedded Kafka, such as `t: 1`.
        `admin`: where its admin API listens, if not at the default. `remote`: a broker that relays lead to.
        """
        edge, core, http, *secured = ports(5)
        self.edge = ("127.0.0.1", edge)
        self.core = ("127.0.0.1", core)
        self._secured = {name: ("127.0.0.1", port) for name, port in zip(("edge", "core"), secured, strict=True)}
        text = POLICY.format(
            edge=edge,
            core=core,
            http=http,
            edge_tls=SECURED.format(port=secured[0], pair=tls) if tls else "",
            core_tls=SECURED.format(port=secured[1], pair=tls) if tls else "",
            admin=f', admin: {{listen: "{admin}"}}' if admin else "",
            journal=f", journal: {{kafka: main, {journal}}}" if journal is not None else "",
            kafka=KAFKA.format(bootstrap=bootstrap, topics=topics and f", topics: {{{topics}}}") if bootstrap else "",
            events=EVENTS if bootstrap else "",
            connect=CONNECT.format(remote=remote) if remote else "",
            remote=REMOTE if remote else "",
        )
        policy = written(text)
        tree = os.environ.get(TREE)
        self.script = script(Path(tree) if tree else ROOT)
        super().__init__(policy, env=SECRET | ({"PYTHONPATH": tree} if tree else {}))
        self.start_seconds = time.perf_counter() - self._begun

    def _process(self, arguments: list[str]) -> Process:
        self._begun = time.perf_counter()
        return super()._process(arguments)

    def places(self, secured: bool) -> dict[str, tuple[str, int]]:
        """Where the listeners of the scopes are, those with TLS or those without."""
        return self._secured if secured else {"edge": self.edge, "core": self.core}

    @property
    def pid(self) -> int:
        """The gateway's process."""
        return self.process.pid

    def close(self) -> None:
        """Ends the gateway, whatever the last case left behind."""
        self.process.discard()
