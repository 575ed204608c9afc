"""Kafka in the policy: what librdkafka is told of security, mistakes with their places, secrets that stay hidden."""

from __future__ import annotations

import pytest

from bridges.kafka.admin.client import settings_error
from policies.rules import KafkaRoute
from tests.support.gateway.policy import load_text, mistakes

FILES = {"ca.pem": b"ca", "own.pem": b"own", "own.key": b"key", "pw": b"from-a-file\n"}


def cluster(security: str, **others: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in others.items())
    return f'kafka: {{k: {{bootstrap: "h:1", security: {security}{more}}}}}\nscopes: {{edge: }}'


def client_settings(security: str) -> dict[str, str]:
    policy = load_text(cluster(security), environ={"PW": "from-env"}, files=FILES)
    return policy.client_settings(policy.model.kafka["k"])


@pytest.mark.parametrize(
    ("security", "settings"),
    [
        ("{}", {"security.protocol": "plaintext"}),
        ("{tls: true}", {"security.protocol": "ssl"}),
        ("{tls: false}", {"security.protocol": "plaintext"}),
        (
            "{tls: {ca: ca.pem, verify: false}}",
            {
                "security.protocol": "ssl",
                "ssl.ca.location": "etc/ca.pem",
                "enable.ssl.certificate.verification": "false",
            },
        ),
        (
            "{tls: {cert: own.pem, key: own.key, key_password: {file: pw}}}",
            {
                "security.protocol": "ssl",
                "ssl.certificate.location": "etc/own.pem",
                "ssl.key.location": "etc/own.key",
                "ssl.key.password": "from-a-file",
            },
        ),
        (
            "{tls: true, sasl: {user: gw, password: {env: PW}}}",
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "gw",
                "sasl.password": "from-env",
            },
        ),
        (
            "{sasl: {mechanism: plain, user: gw, password: {env: PW}}, allow_plain_without_tls: true}",
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "gw",
                "sasl.password": "from-env",
            },
        ),
        (
            "{tls: {ca: ca.pem}, sasl: {mechanism: oauthbearer, user: id, password: {env: PW}, "
            "token_url: 'https://idp/token', scope: kafka}}",
            {
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": "etc/ca.pem",
                "https.ca.location": "etc/ca.pem",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "from-env",
                "sasl.oauthbearer.scope": "kafka",
            },
        ),
    ],
)
def test_what_librdkafka_is_told(security: str, settings: dict[str, str]) -> None:
    assert client_settings(security) == settings


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ("{tls: }", "kafka.k.security.tls: must be true (the system's authorities) or {ca: file}"),
        ("{tls: {cert: own.pem}}", "kafka.k.security.tls: cert and key belong together"),
        ("{tls: {key_password: {env: PW}}}", "kafka.k.security.tls.key_password: a password needs a key"),
        ("{tls: {ca: none.pem}}", "kafka.k.security.tls.ca: file none.pem cannot be read: No such file"),
        ("{sasl: {user: u, password: pw}}", "kafka.k.security.sasl.password: a secret is never written into the"),
        ("{sasl: {user: u, password: {env: NO}}}", "environment variable NO is not set"),
        ("{tls: true, sasl: {mechanism: plain, password: {env: PW}}}", "kafka.k.security.sasl: PLAIN needs user"),
        ("{sasl: {mechanism: plain, user: u, password: {env: PW}}}", "PLAIN needs tls, or allow_plain_without_tls"),
        ("{sasl: {mechanism: gssapi}}", "kafka.k.security.sasl.mechanism: "),
        (
            "{tls: true, sasl: {mechanism: oauthbearer, user: u, password: {env: PW}}}",
            "kafka.k.security.sasl: OAUTHBEARER needs token_url",
        ),
        ("{sasl: {user: u, password: {env: PW}, scope: s}}", "SCRAM-SHA-512 fetches no token; only oauthbearer does"),
        (
            "{tls: true, sasl: {mechanism: oauthbearer, user: u, password: {env: PW}, token_url: 'ftp://x'}}",
            "kafka.k.security.sasl.token_url: ",
        ),
    ],
)
def test_mistakes_name_their_place_and_the_way_out(security: str, said: str) -> None:
    (line,) = mistakes(cluster(security), environ={"PW": "hidden-word"}, files=FILES)
    assert said in line
    assert "hidden-word" not in line


def test_one_thing_is_said_in_one_place() -> None:
    (line,) = mistakes(cluster("{tls: true}", client="{ssl.ca.location: x}"))
    assert "kafka.k.client.'ssl.ca.location': security of this cluster sets this" in line
    other = load_text(cluster("{tls: true}", client="{ssl.endpoint.identification.algorithm: none}"))
    assert len(other.client_settings(other.model.kafka["k"])) == 2


def test_the_embedded_cluster_has_no_security() -> None:
    (line,) = mistakes("kafka: {k: {security: {tls: true}}}\nscopes: {edge: }")
    assert "kafka.k.security: not available for the embedded cluster: set bootstrap" in line


def test_a_certificate_that_was_replaced_is_noticed() -> None:
    text, found = cluster("{tls: {ca: ca.pem}}"), []
    for content in (b"old", b"old", b"new"):
        policy = load_text(text, files={"ca.pem": content})
        found.append(policy.cluster_files(policy.model.kafka["k"]))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"linger.ms": "5"}, None),
        ({"no.such": "x"}, 'No such configuration property: "no.such"'),
        ({"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"}, "ssl.ca.location failed"),
    ],
)
def test_what_librdkafka_does_not_take_is_said_before_it_is_used(settings: dict[str, str], said: str | None) -> None:
    found = settings_error(settings)
    assert found is None if said is None else said in str(found)


def test_strict_times_are_not_to_be_had_of_the_embedded_cluster() -> None:
    rule = "{match: 'e/{topic}', kafka: k, strict_timestamps: true}"
    (line,) = mistakes(f"kafka: {{k: }}\nscopes: {{edge: {{addresses: [{rule}]}}}}")
    assert "addresses[0].strict_timestamps: every link would be refused" in line
    load_text(f'kafka: {{k: {{bootstrap: "h:1"}}}}\nscopes: {{edge: {{addresses: [{rule}]}}}}')


@pytest.mark.parametrize(
    ("given", "keys"),
    [("", ("group-key",)), (", key_from: group-id", ("group-id",)), (", key_from: [group-key, group-id]", None)],
)
def test_where_keys_come_from(given: str, keys: tuple[str, ...] | None) -> None:
    rule = f"{{match: 'e/{{topic}}', kafka: k{given}}}"
    route = load_text(f"kafka: {{k: }}\nscopes: {{edge: {{addresses: [{rule}]}}}}").scopes["edge"].route("e/t")
    assert isinstance(route, KafkaRoute)
    assert route.key_from == (keys or ("group-key", "group-id"))
