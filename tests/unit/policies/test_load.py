"""Loading a policy file: defaults, values, and every mistake at once at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.load.loader import load_policy
from policies.model.policy import Policy
from policies.subscriptions import manager_rules
from policies.text.diagnostics import PolicyErrors
from policies.values.units import Bind, Endpoint
from tests.support.gateway.policy import KEY, load_text, mistakes
from tests.support.project.parts import ROOT

EXAMPLES = ROOT / "policies" / "examples"

DESIGN = """
gateway: {id: gw-1, http: "127.0.0.1:8672", state: memory}
keys:
  active: "2026-11"
  ring: {"2026-11": {env: SCOPEGATE_KEY_2026_11}, "2026-10": {file: keys/2026-10, until: 2026-12-01}}
  expiry: 5m
kafka:
  main: {bootstrap: embedded}
scopes:
  edge:
    listen: [{bind: "127.0.0.1:5672", sasl: [anonymous, plain], users: users.yaml}]
    addresses:
      - {match: "events/{topic}", kafka: main, topic: "{topic}", binding: agnostic, groups: dynamic}
      - {match: "svc/{name}", relay: core, address: "services/{name}", replies: auto}
      - {match: "chat/**", direct: balanced}
    access:
      - {who: "*", may: [send, receive, info], on: "**"}
  core:
    listen: [{bind: "127.0.0.1:5673"}]
    connect:
      - name: broker
        to: "amqps://broker.example:5671"
        sasl: {mechanism: SCRAM-SHA-256, user: gw, password: {file: keys/broker}}
    addresses:
      - {match: "services/**", direct: balanced}
      - {match: "queues/**", relay: broker}
"""
DESIGN_FILES = {"users.yaml": b"", "keys/2026-10": KEY.encode(), "keys/broker": b"pw"}
WRONG = """\
gateway: {drian: 10s, drain: 10, id: 5}
keys: {active: b, ring: {a: {env: NOPE}}, seal: 1, skew: 6m, create: 1}
kafka:
  main: {bootstrap: 'k1:x', client: {acks: 1, sasl.password: hunter2}}
  main: {}
scopes:
  edge:
    listen:
      - {bind: "127.0.0.1:5672", sasl: [plain, ntlm], users: users.yaml, tls: {cert: a}}
      - {bnd: 1}
      - {bind: "0.0.0.0:5672", sasl: plain}
    connect:
      - {name: core, to: "amqp://bob:hunter2@b", sasl: {mechanism: PLAIN, password: hunter2}}
    addresses:
      - {match: "events/{topic}", kafka: man, topic: "{tpic}"}
      - {match: "svc/{name}", rely: core}
      - {match: "chat/**", direct: balnced}
      - {match: "svc/**", relay: cor, address: "a/{b}"}
      - {match: "svc/a*", relay: core}
      - {match: "svc/foo", relay: edge}
    acess: []
    access:
      - {who: 5, may: [sned]}
      - {may: send, on: [a, "{x"]}
  core: {temporary: yes}
"""
WRONG_SAID = """\
1:11: gateway.drian: unknown key; did you mean drain? (allowed: id, http, admin, state, lease, user_termini, memory, drain, drain_delay, log, journal, tracing)
1:30: gateway.drain: needs a whole number with a unit, like "10s" (allowed: ms, s, m, h, d)
1:38: gateway.id: must be text (put it in quotes)
2:16: keys.active: no key of the ring has this id (allowed: a)
2:29: keys.ring.a: environment variable NOPE is not set
2:49: keys.seal: must be true or false
2:58: keys.skew: must be at most 5m
2:62: keys.create: not in this version: this version creates topics only by kafka.<name>.topics (embedded); leave the key out (allowed: active, ring, expiry, skew, seal, max_cookie)
4:21: kafka.main.bootstrap: must be embedded or servers, like "kafka1:9092,kafka2:9092"
4:38: kafka.main.client.acks: reserved: the gateway's guarantees depend on this setting
4:62: kafka.main.client.'sasl.password': a secret is never written into the policy; use {env: NAME} or {file: path}
5:3: kafka.main: this key is repeated
9:48: scopes.edge.listen[0].sasl[1]: not one of the values allowed here (allowed: anonymous, plain, external, scram-sha-256, scram-sha-512)
9:62: scopes.edge.listen[0].users: file users.yaml cannot be read: No such file or directory
9:79: scopes.edge.listen[0].tls.key: missing, and required: private key of the certificate, PEM, path relative to the policy file
10:10: scopes.edge.listen[1].bnd: unknown key; did you mean bind? (allowed: bind, advertise, sasl, users, tls, allow_plain_without_tls, annotations, dialect, event_hubs, websocket, strict_annotations, limits)
11:16: scopes.edge.listen[2].bind: 0.0.0.0:5672 is already in use by scopes.edge.listen[0].bind
11:38: scopes.edge.listen[2].sasl: plain is offered only on TLS: add tls, or allow_plain_without_tls: true
11:38: scopes.edge.listen[2].sasl: plain needs users: the file of users and their passwords
13:26: scopes.edge.connect[0].to: no user or password is allowed here; write them as sasl: {user, password: {env: NAME}}
13:85: scopes.edge.connect[0].sasl.password: a secret is never written into the policy; use {env: NAME} or {file: path}
15:42: scopes.edge.addresses[0].kafka: there is no Kafka cluster man; did you mean main? (allowed: main)
15:54: scopes.edge.addresses[0].topic: {tpic} is not a capture of match (allowed: {topic})
16:9: scopes.edge.addresses[1]: needs exactly one of direct, relay, kafka, service and redirect, which define what the address is; rely is unknown, did you mean relay?
17:36: scopes.edge.addresses[2].direct: not one of the values allowed here; did you mean balanced? (allowed: balanced, multicast)
18:34: scopes.edge.addresses[3].relay: there is no other scope or connector of this scope cor; did you mean core? (allowed: core)
18:48: scopes.edge.addresses[3].address: {b} is not a capture of match (allowed: no captures)
19:17: scopes.edge.addresses[4].match: "*" must be a whole segment; inside one use a capture, like "orders-{n}"
19:34: scopes.edge.addresses[4].relay: both a scope and a connector of this scope have this name; rename one
20:17: scopes.edge.addresses[5].match: never reached: entry 3 before it (svc/**) matches all of it
20:35: scopes.edge.addresses[5].relay: a scope cannot relay to itself
21:5: scopes.edge.acess: unknown key; did you mean access? (allowed: listen, connect, addresses, bridge, api, subscriptions, access, anonymous_relay, strict_desired, temporary, transactions, transaction_timeout, max_transactions, connection_transactions, response_routing, response_rate)
23:15: scopes.edge.access[0].who: must be text (put it in quotes)
23:24: scopes.edge.access[0].may[0]: not one of the values allowed here; did you mean send? (allowed: send, receive, info, subscribe)
24:29: scopes.edge.access[1].on[1]: a segment may have at most one capture, like {name}: a letter, then letters, digits or _
25:21: scopes.core.temporary: must be true or false
"""  # noqa: E501


def test_everything_but_scopes_has_a_default() -> None:
    policy = load_text("scopes: {edge: }")
    assert policy.model == Policy.model_validate({"scopes": {"edge": {}}})
    assert policy.model.gateway.http == Bind("127.0.0.1", 8672)
    assert policy.model.gateway.drain.seconds == 10
    assert (policy.signing, policy.warnings) == (None, ())


def test_values_have_units_and_places() -> None:
    model = load_text(
        """
        gateway: {http: off, drain: 250ms, state: redis://127.0.0.1:6379/0}
        scopes:
          edge:
            listen: [{bind: "[::1]:0", limits: {handshake: 3s, max_frame_size: 1MiB, idle_timeout: 0s}}]
            connect: [{name: b, to: [amqp://one, "amqps://two:99/", "amqps://[::1]"], backoff: {max: 1m}}]
            access: [{may: send, on: a}]
        """
    ).model
    scope = model.scopes["edge"]
    limits = scope.listen[0].limits
    assert (model.gateway.http, model.gateway.drain) == (None, 250)
    assert scope.listen[0].bind == Bind("::1", 0)
    assert (limits.handshake, limits.max_frame_size, limits.idle_timeout) == (3000, 1 << 20, 0)
    urls = (Endpoint(False, "one", 5672), Endpoint(True, "two", 99), Endpoint(True, "::1", 5671))
    assert scope.connect[0].to == urls
    assert (scope.connect[0].backoff.min, scope.connect[0].backoff.max) == (250, 60_000)


def test_a_file_of_mistakes_gives_them_all_in_order() -> None:
    assert mistakes(WRONG) == WRONG_SAID.splitlines()


def test_a_wrong_file_is_never_a_policy_and_says_no_secret() -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_text(WRONG)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("etc/p.yaml:1:11: gateway.drian: unknown key; did you mean drain?")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "1:1: the file is empty; start from"),
        (b"- a", "1:1: must be a section (key: value) (allowed: gateway, keys, kafka, filters, pipeline, scopes)"),
        (b"a: b: c", "1:5: not YAML: mapping values are not allowed here"),
        (b"scopes:\n\t- a", "2:1: not YAML: found character '\\t' that cannot start any token"),
        (b"scopes: *x", "1:9: not YAML: found undefined alias 'x'"),
        (b"a: 1\n---\nb: 2\n", "2:1: not YAML: but found another document"),
        (b"scopes: {\xff: 1}", "1:1: not UTF-8 text"),
        (
            b"scopes: {edge: !python/object:os.system {}}",
            "1:16: scopes.edge: unknown tag !python/object:os.system",
        ),
        (b"scopes: {[a]: 1, e: }", "1:10: scopes: a key must be plain text"),
        (b"[" * 600, "1:1: too deep: values are nested 32 levels deep at most"),
        (b'a: "\\U99999999"', "1:1: not YAML: Python int too large to convert to C int"),
        (b"#" * (1 << 20) + b"#", "1:1: not YAML: a policy file may have at most 1048576 bytes"),
    ],
)
def test_what_is_no_policy_at_all(raw: bytes, said: str) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_policy(Path("p"), environ={}, read_bytes=lambda _: raw)
    assert str(caught.value.problems[0]).startswith(f"p:{said}")


def test_an_alias_that_contains_itself_ends() -> None:
    assert any("too deep or too large" in line for line in mistakes("scopes: {edge: &a {listen: [*a]}}"))


def test_aliases_that_multiply_end() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9))
    assert any("too deep or too large" in line for line in mistakes(f"l0: &l0 [x]\n{levels}"))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(PolicyErrors, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_policy(Path("nowhere.yaml"), environ={}, read_bytes=Path.read_bytes)


def test_the_quickstart_example_loads_with_its_key() -> None:
    path = EXAMPLES / "quickstart.yaml"
    environ = {"SCOPEGATE_QUICKSTART_KEY": KEY, "SCOPEGATE_QUICKSTART_TOKEN": KEY}
    policy = load_policy(path, environ=environ, read_bytes=Path.read_bytes)
    assert [str(scope.listen[0].bind) for scope in policy.model.scopes.values()] == [
        "127.0.0.1:5672",
        "127.0.0.1:5673",
    ]
    assert policy.signing is not None
    assert (policy.signing.active, policy.signing.expiry.seconds) == ("quickstart", 300)
    assert len(policy.signing.keys["quickstart"].secret) == 32
    assert policy.warnings == ()
    assert KEY not in repr(policy)


def test_the_boundary_example_loads_with_its_files_and_environment() -> None:
    files = ["users.yaml", "tls/gateway.crt", "tls/gateway.key", "tls/partners.crt", "tls/company.crt"]
    beside = {EXAMPLES / name: b"x" for name in files}
    beside |= {EXAMPLES / "keys/2026-10": KEY.encode() + b"\n", EXAMPLES / "keys/broker-password": b"pw\n"}
    beside[EXAMPLES / "boundary.yaml"] = (EXAMPLES / "boundary.yaml").read_bytes()
    environ = {"SCOPEGATE_KEY_2026_11": KEY, "SCOPEGATE_KAFKA_PASSWORD": "kafka-pw"}
    policy = load_policy(EXAMPLES / "boundary.yaml", environ=environ, read_bytes=beside.__getitem__)
    connector = policy.model.scopes["company"].connect[0]
    assert connector.sasl.password is not None
    assert policy.secret(connector.sasl.password) == b"pw"
    settings = policy.client_settings(policy.model.kafka["events"])
    assert settings["sasl.password"] == "kafka-pw"
    assert policy.signing is not None
    assert policy.signing.keys["2026-10"].until_ms == 1_796_083_200_000
    assert policy.warnings == ()


def test_the_subscriptions_example_loads_with_its_files_and_environment() -> None:
    path = EXAMPLES / "subscriptions.yaml"
    names = ("users.yaml", *(f"tls/{name}" for name in ("gateway.crt", "gateway.key", "pay.crt", "us.crt", "us.key")))
    beside = {EXAMPLES / name: b"x" for name in names}
    beside |= {EXAMPLES / "keys/broker-password": b"pw\n", path: path.read_bytes()}
    environ = {"SCOPEGATE_KEY_2026_11": KEY, "OAUTH_PARTNER": "o"}
    policy = load_policy(path, environ=environ, read_bytes=beside.__getitem__)
    assert policy.warnings == ()
    (rules,) = manager_rules(policy)
    assert len(rules.sinks) == 10
    assert policy.secret(rules.oauth[0].secret or pytest.fail("no secret")) == b"o"
    del beside[EXAMPLES / "tls/pay.crt"]
    with pytest.raises(KeyError):
        load_policy(path, environ=environ, read_bytes=beside.__getitem__)


def test_the_example_of_the_design_loads_without_its_seal() -> None:
    policy = load_text(DESIGN, environ={"SCOPEGATE_KEY_2026_11": KEY}, files=DESIGN_FILES)
    assert [warning.message for warning in policy.warnings] == [
        "plain is offered only on TLS: add tls, or allow_plain_without_tls: true; it is left out",
        "has no access entries: clients may connect, and every link is refused",
    ]
    assert policy.model.scopes["edge"].listen[0].offered == ("ANONYMOUS",)


def test_without_secrets_nothing_outside_the_file_is_looked_at() -> None:
    assert load_text(DESIGN, with_secrets=False).signing is None
    assert len(mistakes(DESIGN)) == 4


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "environment variable K is empty"),
        ("short", "not base64url of 32 or more bytes; make one with `scopegate keys new`"),
        ("!" * 50, "not base64url of 32 or more bytes; make one with `scopegate keys new`"),
        ("\udcff" * 50, "environment variable K is not UTF-8 text"),
    ],
)
def test_a_key_must_be_usable(value: str, said: str) -> None:
    text = "keys: {active: a, ring: {a: {env: K}}}\nscopes: {edge: }"
    assert mistakes(text, environ={"K": value}) == [f"1:29: keys.ring.a: {said}"]


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        ('{tls: {cert: u, key: u, "<": 1}}', "scopes.edge.listen[0].tls.<: unknown key (allowed: cert, key,"),
        ("{sasl: plain, users: u}", "plain is offered only on TLS"),
        ("{sasl: scram-sha-256}", "scram-sha-256 needs users"),
        ("{sasl: external}", "external needs tls with client_ca"),
        ("{tls: {cert: u, key: u, require_client_cert: true}}", "needs client_ca"),
        ("{limits: {max_frame_size: 511B}}", "must be at least 512B"),
        ("{limits: {connections: 0}}", "must be at least 1"),
        ("{limits: {connections: many}}", "must be a whole number"),
        ("{bind: 5672}", 'needs "host:port"'),
        ('{bind: "h:65536"}', 'needs "host:port"'),
        (
            "{tls: on}",
            "must be a section (key: value) (allowed: cert, key, key_password, client_ca, require_client_cert)",
        ),
    ],
)
def test_mistakes_of_a_listener(listener: str, said: str) -> None:
    (line,) = mistakes(f"scopes: {{edge: {{access: [{{may: send}}], listen: [{listener}]}}}}", files={"u": b"x"})
    assert said in line


@pytest.mark.parametrize(
    ("connector", "said"),
    [
        ("to: 'http://x'", "needs a URL like"),
        ("to: []", "needs at least one URL"),
        ("to: 'amqp://x/path'", "needs host[:port] after the scheme"),
        (
            "to: 'amqp://x', sasl: {mechanism: plain, user: u, password: {env: K}}",
            "PLAIN needs amqps:// URLs only",
        ),
        ("to: 'amqps://x', sasl: {mechanism: plain, user: u}", "PLAIN needs password"),
        ("to: 'amqps://x', sasl: {user: u}", "ANONYMOUS uses no user or password"),
        ("to: 'amqps://x', sasl: {mechanism: EXTERNAL}", "EXTERNAL needs tls with cert and key"),
        ("to: 'amqps://x', tls: {cert: u}", "cert and key belong together"),
        ("to: 'amqps://x', tls: {key_password: {env: K}}", "tls.key_password: a password needs a key"),
        ("to: 'amqps://x', tls: {cert: u, key: u, key_password: {env: NO}}", "environment variable NO is not set"),
        ("to: 'amqps://x', tls: {cert: u, key: u, key_password: word}", "a secret is never written into the policy"),
        ("to: 'amqps://x', backoff: {min: 1m}", "min must not be longer than max"),
        (
            "to: 'amqps://x', sasl: {mechanism: plain, user: u, password: {env: K, file: u}}",
            "exactly one of env and file",
        ),
    ],
)
def test_mistakes_of_a_connector(connector: str, said: str) -> None:
    text = f"scopes: {{edge: {{connect: [{{name: b, {connector}}}]}}}}"
    (line,) = mistakes(text, files={"u": b"x"}, environ={"K": "x"})
    assert said in line


@pytest.mark.parametrize(
    ("pull", "said"),
    [
        ("[{from: q, to: nowhere}]", "scopes.edge.connect[0].pull[0].to: no entry of scopes.edge.addresses matches"),
        ("[{from: q, to: b/q}]", "leads back to q at far, its source"),
        ("[{from: q, to: round/q}]", "leads back to q at far, its source"),
        ("[{from: q, to: a}, {from: q, to: a}]", "connect[0].pull[1].from: entry 0 already pulls from here"),
        ("[{from: q}]", "missing, and required"),
        ("[{queue: q, from: q, to: a}]", "unknown key (allowed: from, to, credit)"),
        ("[{from: q, to: a, credit: 0}]", "credit"),
    ],
)
def test_mistakes_of_a_pull(pull: str, said: str) -> None:
    text = f"""
    scopes:
      edge:
        connect: [{{name: far, to: "amqps://x", pull: {pull}}}]
        addresses:
          - {{match: a, direct: balanced}}
          - {{match: "b/{{name}}", relay: far, address: "{{name}}", replies: none}}
          - {{match: "round/{{name}}", relay: core, replies: none}}
      core: {{addresses: [{{match: "round/{{name}}", relay: edge, address: "b/{{name}}", replies: none}}]}}
    """
    assert any(said in line for line in mistakes(text)), mistakes(text)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("[{match: a, relay: core}]", "needs signing keys"),
        ("[{match: a, relay: edge, replies: none}]", "a scope cannot relay to itself"),
        (
            "[{match: a, direct: balanced}, {match: a, direct: multicast}]",
            "never reached: entry 0 before it (a)",
        ),
        (
            "[{match: a, kafka: k, binding: partition}]",
            "{topic} is not a capture of match (allowed: no captures)",
        ),
        (
            "[{match: 'b/**', relay: core, replies: none}]",
            "the relays form a loop: edge b/x → core b/x → edge b/x",
        ),
        ("[{match: a}]", "needs exactly one of direct, relay, kafka, service and redirect"),
        ("[{match: a, direct: balanced, relay: core}]", "needs exactly one of direct, relay, kafka, service and red"),
        ("{match: a}", "must be a list"),
    ],
)
def test_mistakes_of_address_rules(rules: str, said: str) -> None:
    text = f"""
    kafka: {{k: {{topics: {{orders: 3}}}}}}
    scopes:
      edge: {{addresses: {rules}}}
      core: {{addresses: [{{match: "b/**", relay: edge, replies: none}}]}}
    """
    assert any(said in line for line in mistakes(text))


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("bootstrap: 'a:1', topics: {t: 1}", "topics are created only in an embedded cluster"),
        ("topics: {t: 0}", "must be at least 1"),
        ("topics: {'t t': 1}", "must be a name of letters, digits"),
        ("client: {test.mock.num.brokers: 3}", "reserved: the gateway"),
        ("client: {a: [1]}", "must be a section (key: value) (allowed: env, file)"),
    ],
)
def test_mistakes_of_a_cluster(cluster: str, said: str) -> None:
    (line,) = mistakes(f"kafka: {{k: {{{cluster}}}}}\nscopes: {{edge: }}")
    assert said in line


def test_the_active_key_must_not_end() -> None:
    text = "keys: {active: a, ring: {a: {env: K, until: 2026-12-01}}}\nscopes: {edge: }"
    (line,) = mistakes(text, environ={"K": KEY})
    assert line.startswith("1:45: keys.ring.a.until: the active key must not expire")
