"""`api` and `subscriptions` in the policy: what is checked, what is warned of, and what a manager gets of them."""

from __future__ import annotations

from typing import Final

import pytest

from policies.rules import ServiceRoute
from policies.subscriptions import manager_rules
from policies.values.units import Millis, Rate
from tests.support.gateway.policy import KEY, load_text, mistakes

POLICY: Final = """
gateway: {{state: "{state}"}}
kafka: {{main: {{bootstrap: "k1:9092,K2:9093"}}, own: {{}}}}
scopes:
  edge:
    connect: [{{name: broker, to: "amqps://Broker.example:5671"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}", dead_letter: "{{topic}}.dlq"}}
      - {{match: "plain/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "bare/{{topic}}", kafka: main, topic: "{{topic}}", mode: amqp}}
      - {{match: d, direct: balanced}}
      - {{match: "$subscriptions", service: {service}}}
    access: {access}
    api: {api}
    subscriptions: {managers}
"""
REDIS: Final = "redis://127.0.0.1:6379/0"
ACCESS: Final = "[{who: a, may: subscribe, on: events/orders}]"
SINK: Final = "{protocol: http, to: 'https://*.example'}"
HANDSHAKE: Final = "handshake: {origin: gw.example}"
API: Final = "[{auth: anonymous}]"


def text(managers: str, api: str = API, service: str = "echo", access: str = ACCESS, state: str = REDIS) -> str:
    return POLICY.format(managers=managers, api=api, service=service, access=access, state=state)


def manager(rest: str = "", name: str = "m", sinks: str = SINK) -> str:
    return f"{{name: {name}, events: [events/orders], {HANDSHAKE}, sinks: [{sinks}], {rest}}}"


def oauth(endpoint: str, rest: str = "") -> str:
    entry = f"{{endpoint: '{endpoint}', client: c{rest}}}"
    return f"[{manager(f'oauth: [{entry}]')}]"


def sink(rest: str) -> str:
    return f"[{manager(sinks='{' + rest + '}')}]"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (text(f"[{manager()}, {manager(name='n')}]"), "subscriptions[1].path: another manager of"),
        (text(f"[{manager()}, {manager('path: /b')}]"), "subscriptions[1].name: another manager of"),
        (text("[{name: m, events: [d]}]"), "subscriptions[0].events[0]: leads to no Kafka topic; forward its messages"),
        (text("[{name: m, events: nowhere}]"), "subscriptions[0].events: leads to no Kafka topic"),
        (text("[{name: m, events: [events/a, events/a]}]"), "subscriptions[0].events[1]: named twice"),
        (text("[{name: m, events: []}]"), "subscriptions[0].events: must not be empty"),
        (text("[{name: m}]"), "subscriptions[0].events: missing, and required"),
        (text(f"[{manager('path: subs')}]"), 'subscriptions[0].path: needs a path like "/subscriptions"'),
        (text(f"[{manager('path: /a/../b')}]"), 'needs a path like "/subscriptions"'),
        (text(f"[{manager('operations: [create]')}]"), "operations: retrieve has to be among them"),
        (text(f"[{manager('dialects: [sql]')}]"), "dialects: basic has to be among them"),
        (text(f"[{manager('dialects: [jq]')}]"), "(allowed: basic, filters, sql, amqp-sql)"),
        (text(f"[{manager('delivery: {retry: {min: 2m, max: 1m}}')}]"), "retry: min must not be longer than max"),
        (text(f"[{manager('delivery: {order: fifo}')}]"), "(allowed: key, partition, none)"),
        (text(f"[{manager('limits: {object: 2MiB}')}]"), "object: must be at most 1MiB"),
        (text(f"[{manager('handshakes: {}')}]"), "unknown key; did you mean handshake?"),
        (text(oauth("https://l.example/t")), "oauth: tokens are stored "
            "encrypted, which needs keys"),
        (text(oauth("http://l.example/t")), "needs one https URL"),
        (text(oauth("https://l.example/t", ", secret: x")), "a secret is "
            "never written into the policy"),
        (text(sink("protocol: http, to: 'https://a.example', local: x")), "needs exactly one of to, local, connector"),
        (text(sink("protocol: http")), "needs exactly one of to, local, connector and cluster"),
        (text(sink("protocol: smtp, to: 'https://a.example'")), "(allowed: http, amqp, kafka, mqtt3, mqtt5, nats)"),
        (text(sink("protocol: http, to: 'ftp://a.example'")), "sinks[0].to: needs a URL like"),
        (text(sink("protocol: http, to: 'https://u:p@a.example'")), "sinks[0].to: needs a URL like"),
        (text(sink("protocol: http, to: 'https://a.example?x=1'")), "sinks[0].to: needs a URL like"),
        (text(sink("protocol: http, to: 'https://a*.example'")), 'in a host, "*" must be a whole label'),
        (text(sink("protocol: http, to: 'https://a.example:0'")), "a port is a number from 1 to 65535"),
        (text(sink("protocol: http, to: 'https://2130706433'")), "not an IPv4 address of four plain decimal parts"),
        (text(sink("protocol: http, to: 'https://a.example/**/x'")), 'the path "**" must be the whole last segment'),
        (text(sink("protocol: amqp, to: 'https://a.example'")), "protocol amqp has no scheme https (allowed: amqps"),
        (text(sink("protocol: amqp, to: 'amqps://a.example/q'")), "only http and https URLs have a path here"),
        (text(sink("protocol: [http, amqp], local: x")), "local is for protocol amqp, not http"),
        (text(sink("protocol: kafka, cluster: mian")), "there is no Kafka cluster mian; did you mean main?"),
        (text(sink("protocol: amqp, connector: brokr")), "there is no connector of this scope brokr; did you mean"),
        (text(sink("protocol: kafka, cluster: main, topics: ['a b']")), "needs a topic name"),
        (text(sink("protocol: nats, to: 'nats://n', topics: [x]")), "topics are for protocol kafka"),
        (text(sink("protocol: nats, to: 'nats://n', address: x")), "address is for protocol amqp"),
        (text(sink("protocol: nats, to: 'nats://a,b'")), "only a kafka URL may name several servers"),
        (text(sink("protocol: http, to: 'https://a.example', networks: [10.0.0.1/8]")), "networks[0]: needs public or"),
        (text(sink("protocol: http, to: 'https://a.example', networks: private")), "networks: needs public or"),
        (text(sink("protocol: http, to: 'https://a.example', tls: {cert: x}")), "tls: cert and key belong together"),
        (
            text(sink("protocol: http, to: 'https://a.example', tls: {key_password: {file: x}}")),
            "sinks[0].tls.key_password: a password needs a key",
        ),
        (text(sink("protocol: amqp, local: x, tls: {ca: x}")), "tls is for URLs (to); the local has its own"),
        (text(f"[{{name: m, events: events/a, sinks: [{SINK}]}}]"), "sinks[0]: needs handshake: {origin: …} at the"),
        (text("[]", service="subscriptions"), "addresses[4]: service: subscriptions needs manager"),
        (text(f"[{manager()}]", service="subscriptions, manager: n"), "there is no subscription manager of this scope"),
        (text(f"[{manager()}]", service="echo, manager: m"), "addresses[4].manager: service: echo takes no manager"),
        (text("[]", api="[{auth: basic}]"), "api[0].auth: basic needs users: the file of users"),
        (text("[]", api="[{auth: basic, users: u}]"), "api[0].auth: basic needs tls, or allow_basic_without_tls: true"),
        (text("[]", api="[{auth: certificate}]"), "api[0].auth: certificate needs tls with client_ca"),
        (text("[]", api="[{auth: digest}]"), "(allowed: basic, certificate, anonymous)"),
        (text("[]", api="[{auth: anonymous, public_url: 'https://u@x'}]"), "public_url: needs a URL like"),
        (text("[]", api="[{auth: anonymous, bind: '127.0.0.1:8672'}]"), "bind: 127.0.0.1:8672 is already in use"),
        (text("[]", api="[{auth: anonymous, limits: {body: 1B}}]"), "body: must be at least 1KiB"),
        (text("[]", access="[{may: subscribes}]"), "(allowed: send, receive, info, subscribe)"),
    ],
)  # fmt: skip
def test_mistakes_name_their_place(policy: str, said: str) -> None:
    found = mistakes(policy, files={"u": b"{}", "x": b""})
    assert [line for line in found if said in line], found


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (text(f"[{manager()}]", state="memory"), "last only as long as this process (gateway.state: memory)"),
        (text("[{name: m, events: events/a}]"), "has no sinks: every subscription is refused"),
        (text(sink("protocol: http, to: 'http://a.example'")), "go through public networks without TLS"),
        (text(f"[{{name: m, events: plain/a, {HANDSHAKE}, sinks: [{SINK}]}}]"), "its rule has no dead_letter"),
        (text(f"[{{name: m, events: bare/a, {HANDSHAKE}, sinks: [{SINK}]}}]"), "has mode: amqp: CloudEvents"),
        (text(f"[{manager()}]", api="[]"), "no api of this scope and no address with service: subscriptions"),
        (text(f"[{manager()}]", access="[{may: receive}]"), "no access entry grants subscribe: nobody may subscribe"),
        (text("[]", api="[{auth: anonymous, users: u}]"), "only auth: basic uses passwords"),
    ],
)
def test_warnings(policy: str, said: str) -> None:
    found = [str(warning) for warning in load_text(policy, files={"u": b"{}"}).warnings]
    assert len([line for line in found if said in line]) == 1, found


def test_a_whole_manager_has_neither() -> None:
    served = text(f"[{manager()}]", api="[]", service="subscriptions, manager: m")
    policy = load_text(served)
    assert policy.warnings == ()
    route = policy.scopes["edge"].route("$subscriptions")
    assert isinstance(route, ServiceRoute)
    assert (route.service, route.manager) == ("subscriptions", "m")


def test_what_a_manager_gets_of_the_policy() -> None:
    policy = load_text(
        "keys: {active: k, ring: {k: {env: K}}}\n"
        + text(f"[{manager('manage: ops, others: wrap, delivery: {timeout: 5s}')}]").strip(),
        environ={"K": KEY},
    )
    (rules,) = manager_rules(policy)
    assert (rules.full_name, rules.path, rules.manage, rules.wrap) == ("edge/m", "/subscriptions", {"ops"}, True)
    assert rules.streams["events/orders"].topic == "orders"
    assert rules.streams["events/orders"].reading.dead_letter == "orders.dlq"
    assert rules.clusters == {"main": {("k1", 9092), ("k2", 9093)}, "own": frozenset()}
    assert rules.seals
    assert rules.delivery.timeout == Millis(5000)
    assert rules.handshake is not None
    assert rules.handshake.rate == Rate(600, 60_000)
    assert [rule.where.line for rule in rules.sinks] == [15]
    assert rules.subscribable("a") == ("events/orders",)
    assert not rules.may_subscribe("b", "events/orders")
    assert not rules.may_subscribe("a", "events/other")


def test_the_rules_of_a_manager_are_equal_where_a_reload_changes_nothing() -> None:
    one, other = (manager_rules(load_text(text(f"[{manager(rest)}]")))[0] for rest in ("", "slices: 2"))
    assert one == manager_rules(load_text("\n\n" + text(f"[{manager()}]").strip()))[0]
    assert one != other


def test_to_subscribe_is_a_right_of_its_own() -> None:
    access = "[{who: a, may: subscribe, on: 'events/**'}, {who: b, may: [send, receive], on: 'events/**'}]"
    rules = load_text(text("[]", access=access)).scopes["edge"]
    assert [rules.access(user, action, "events/x").allowed for user in "ab" for action in ("subscribe", "receive")] == [
        True, False, False, True
    ]  # fmt: skip
    assert not rules.access("a", "info", "events/x").allowed
