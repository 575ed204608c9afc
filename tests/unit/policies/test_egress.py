"""PolicyLine events may go: 300 places, each with the answer of the policy (decision 25)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import pytest

from policies.egress import SinkDestination, SinkRule, address_allowed, allows, sink_rule
from policies.internal_topics import TopicPatterns
from policies.model.scopes.sinks import SCHEMES, SinkEntry, SinkKind
from policies.text.diagnostics import PolicyLine
from policies.values.hosts import HostError, address_of, parse_host
from policies.values.networks import is_public


def _words(text: str) -> list[str]:
    return text.split()


PUBLIC: Final = _words(
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 "
    "169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 "
    "192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 "
    "2001:4860:4860::8888 2606:4700::1111 2600:: 2a00:1450:4001::1 2001:200::1 2620:4f:7fff::1 2003::1 3ffe::1 "
    "::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 "
)
NOT_PUBLIC: Final = _words(
    # loopback, private, shared, link-local, this network: first and last of each
    "0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0 127.0.0.1 127.255.255.255 "
    "169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 "
    # protocols, documentation, benchmarks, relays, reserved, multicast, broadcast
    "192.0.0.0 192.0.0.170 192.0.0.255 192.0.2.0 192.0.2.255 192.31.196.1 192.52.193.1 192.88.99.1 192.175.48.1 "
    "198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.1 239.255.255.255 "
    "240.0.0.0 255.255.255.254 255.255.255.255 "
    # IPv6 of the same kinds
    ":: ::1 ::2 100::1 100:0:0:1::1 2001::1 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 "
    "2620:4f:8000::1 3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1 fd00::1 fdff::1 fe80::1 fe80::1%eth0 febf::1 "
    "fec0::1 ff02::1 ff0e::1 fd00:ec2::254 "
    # wrapped: mapped, compatible, translated, NAT64, local NAT64, 6to4, Teredo
    "::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.1.2.3 ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::ffff:224.0.0.1 "
    "::ffff:0:127.0.0.1 ::127.0.0.1 ::8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::7f00:1 64:ff9b::169.254.169.254 "
    "64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1 64:ff9b:0:1::1 2002:7f00:1:: 2002:a9fe:a9fe::1 "
    "2002:a00:1::1 2002:c0a8:1::1 2002:e000:1:: 2001:0:4136:e378:8000:63bf:3fff:fdd2"
)
SPELLINGS: Final = _words(
    "2130706433 017700000001 0x7f000001 0X7F000001 0x7f.0.0.1 0177.0.0.1 0177.0.0.01 127.1 127.0.1 127.0.0.1.5 "
    "0x7f.1 00127.0.0.1 127.00.0.1 127.0.0.0x1 0x 0x. 1.0x 4294967295 256.0.0.1 127.0.0.256 1.2.3 0 00 08 "
    "\uff11\uff12\uff17.\uff11 \uff11\uff12\uff17.0.0.1 b\u00fccher\u3002example \u24d4vil.example a\uff0eexample "
    "127\u30020\u30020 \u0661\u0662\u0667.0.0.1 [127.0.0.1] [::1%25lo] [::1%lo] "
    "[fe80::1%eth0] [::g] [::1 ::1] ::1 [1::2::3] [::ffff:127.0.0.1.2] [] a..b .a a. a b% %61 -a a- a_.b c:d e/f "
    "xn--\xe9- \xdf. fa\xdf.example \u03c2.example a\u200db.example \u1e9e.example a\u200cb \ufffd "
)


def rule(to: str, protocol: SinkKind = "http", **keys: object) -> SinkRule:
    entry = SinkEntry.model_validate({"protocol": protocol, "to": to, **keys})
    return sink_rule(entry, frozenset(), TopicPatterns(entry.topics), PolicyLine("p", 1))


def place(url: str, protocol: SinkKind = "http", address: str = "") -> SinkDestination:
    scheme, rest = url.split("://", 1)
    authority, slash, path = rest.partition("/")
    hosts = []
    for text in authority.split(",") if authority else ():
        host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
        hosts.append((parse_host(host or port), int(port) if colon else SCHEMES[protocol][scheme]))
    return SinkDestination(protocol, scheme, tuple(hosts), slash + path, address)


@pytest.mark.row("CE-P-3")
@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(ip_address(address))
    assert address_allowed(rule("https://**"), ip_address(address))


@pytest.mark.row("CE-P-3")
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_address_of_another_kind_is_public_however_it_is_wrapped(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not address_allowed(rule("https://**"), ip_address(address))
    assert not address_allowed(rule("https://**", networks=["public", "203.0.114.0/24"]), ip_address(address))


NETWORKS: Final = [
    ("10.20.0.0/16", "10.20.0.1", True),
    ("10.20.0.0/16", "10.21.0.1", False),
    ("10.20.0.0/16", "::ffff:10.20.0.1", True),  # a socket connects to 10.20.0.1
    ("10.20.0.0/16", "64:ff9b::10.20.0.1", False),  # a translator would: that is another place
    ("10.20.0.0/16", "2002:a14:1::1", False),
    ("10.20.0.0/16", "8.8.8.8", False),
    ("fd00::/8", "fd12::1", True),
    ("fd00::/8", "fc00::1", False),
    ("fe80::/10", "fe80::1%eth0", True),
    ("127.0.0.0/8", "127.9.9.9", True),
    ("127.0.0.0/8", "::1", False),
    ("::1/128", "::1", True),
    ("::ffff:0:0/96", "::ffff:10.0.0.1", True),
    ("0.0.0.0/0", "10.0.0.1", True),
    ("0.0.0.0/0", "fd00::1", False),
    ("::/0", "fd00::1", True),
    ("64:ff9b::/96", "64:ff9b::10.0.0.1", True),
]


@pytest.mark.parametrize(("network", "address", "allowed"), NETWORKS)
def test_a_network_has_to_be_named(network: str, address: str, allowed: bool) -> None:
    assert address_allowed(rule("https://**", networks=network), ip_address(address)) is allowed


def test_the_gateways_own_addresses_are_public_to_nobody() -> None:
    own = frozenset([ip_address("8.8.4.4"), ip_address("2600::1")])
    usual, named = rule("https://**"), rule("https://**", networks=["public", "8.8.4.0/24"])
    for address in ("8.8.4.4", "::ffff:8.8.4.4", "2600::1"):
        assert address_allowed(usual, ip_address(address))
        assert not address_allowed(usual, ip_address(address), own)
    assert address_allowed(named, ip_address("8.8.4.4"), own)


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_host_that_two_readers_could_take_for_two_is_refused(host: str) -> None:
    try:
        found = parse_host(host)
    except HostError:
        return
    assert found in ("a", "a_.b"), found


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("Hooks.Partner.Example", "hooks.partner.example"),
        ("hooks.partner.example.", "hooks.partner.example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("B\u00dcCHER.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0::0:1]", "::1"),
        ("[::FFFF:127.0.0.1]", "::ffff:7f00:1"),
        ("1.example", "1.example"),
        ("0x7f.example", "0x7f.example"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_a_host_has_one_spelling(host: str, found: str) -> None:
    assert parse_host(host) == found
    assert (address_of(found) is not None) == (found in ("127.0.0.1", "::1", "::ffff:7f00:1"))


PLACES: Final = [
    ("https://hooks.example", "https://hooks.example", True),
    ("https://hooks.example", "https://hooks.example/any/path", True),
    ("https://hooks.example", "https://HOOKS.example:443/", True),
    ("https://hooks.example", "https://hooks.example:8443/", False),
    ("https://hooks.example", "http://hooks.example/", False),
    ("https://hooks.example", "http://hooks.example:443/", False),
    ("https://hooks.example", "https://hooks.example.evil/", False),
    ("https://hooks.example", "https://evil.hooks.example/", False),
    ("https://hooks.example", "https://hooksxexample/", False),
    ("https://*.example", "https://hooks.example/", True),
    ("https://*.example", "https://example/", False),
    ("https://*.example", "https://a.b.example/", False),
    ("https://*.example", "https://a.example.evil/", False),
    ("https://*.example", "https://aexample/", False),
    ("https://**.example", "https://a.b.example/", True),
    ("https://**.example", "https://a.example/", True),
    ("https://**.example", "https://example/", False),
    ("https://**.example", "https://a.b.example.evil/", False),
    ("https://**", "https://any.thing.example/", True),
    ("https://**", "https://single/", True),
    ("https://**", "https://8.8.8.8/", False),
    ("https://**", "https://[2600::1]/", False),
    ("https://*", "https://single/", True),
    ("https://*", "https://two.labels/", False),
    ("https://*.*.*.*", "https://8.8.8.8/", False),
    ("https://*.*.*.*", "https://a.b.c.d/", True),
    ("https://hooks.*.example", "https://hooks.eu.example/", True),
    ("https://hooks.*.example", "https://hooks.example/", False),
    ("https://8.8.8.8", "https://8.8.8.8/", True),
    ("https://8.8.8.8", "https://[::ffff:8.8.8.8]/", False),
    ("https://[2600::1]", "https://[2600:0::1]/", True),
    ("https://b\u00fccher.example", "https://xn--bcher-kva.example/", True),
    ("https://hooks.example:8443", "https://hooks.example:8443/", True),
    ("https://hooks.example:8443", "https://hooks.example/", False),
    ("https://hooks.example/", "https://hooks.example", True),
    ("https://hooks.example/", "https://hooks.example/", True),
    ("https://hooks.example/", "https://hooks.example/a", False),
    ("https://hooks.example/in", "https://hooks.example/in", True),
    ("https://hooks.example/in", "https://hooks.example/in/", False),
    ("https://hooks.example/in", "https://hooks.example/in/x", False),
    ("https://hooks.example/in", "https://hooks.example/inx", False),
    ("https://hooks.example/in", "https://hooks.example/IN", False),
    ("https://hooks.example/in", "https://hooks.example/%69n", False),
    ("https://hooks.example/in", "https://hooks.example//in", False),
    ("https://hooks.example/in", "https://hooks.example", False),
    ("https://hooks.example/in/**", "https://hooks.example/in", True),
    ("https://hooks.example/in/**", "https://hooks.example/in/a/b", True),
    ("https://hooks.example/in/**", "https://hooks.example/inside", False),
    ("https://hooks.example/in/**", "https://hooks.example/out/in/a", False),
    ("https://hooks.example/in/*", "https://hooks.example/in/a", True),
    ("https://hooks.example/in/*", "https://hooks.example/in/a/b", False),
    ("https://hooks.example/in/*", "https://hooks.example/in/", False),
    ("https://hooks.example/t-{n}/in", "https://hooks.example/t-7/in", True),
    ("https://hooks.example/t-{n}/in", "https://hooks.example/t-7/x/in", False),
    ("https://hooks.example/**", "https://hooks.example/a", True),
    ("https://hooks.example/**", "https://hooks.example", True),
    ("https://hooks.example/in/**", "https://hooks.example/in;x/a", False),
    ("https://hooks.example/in/**", "https://hooks.example/in%2Fa", False),
    ("https://1.2.3.4", "https://1.2.3.5/", False),
    ("https://[2600::1]", "https://[2600::2]/", False),
    ("http://hooks.example", "http://hooks.example:80/x", True),
    ("http://hooks.example", "https://hooks.example:80/x", False),
]  # fmt: skip


@pytest.mark.row("CE-P-3")
@pytest.mark.parametrize(("to", "url", "allowed"), PLACES)
def test_a_url_is_allowed_by_scheme_host_port_and_path(to: str, url: str, allowed: bool) -> None:
    assert (allows([rule(to)], place(url)) is not None) is allowed


OTHERS: Final = [
    ({"protocol": "amqp", "to": "amqps://*.example:5671"}, place("amqps://a.example", "amqp", "q"), True),
    ({"protocol": "amqp", "to": "amqps://*.example:5671"}, place("amqp://a.example", "amqp", "q"), False),
    ({"protocol": "amqp", "to": "amqps://*.example:5671"}, place("amqps://a.example:5672", "amqp", "q"), False),
    ({"protocol": "amqp", "to": "amqps://a", "address": "in/**"}, place("amqps://a", "amqp", "in/x"), True),
    ({"protocol": "amqp", "to": "amqps://a", "address": "in/**"}, place("amqps://a", "amqp", "out/x"), False),
    ({"protocol": "amqp", "to": "amqps://a", "address": "in/**"}, place("amqps://a/in/x", "amqp", "out"), False),
    ({"protocol": "amqp", "to": "amqps://a", "address": "**"}, place("amqps://a", "amqp", "a\0"), False),
    ({"protocol": "amqp", "to": "amqps://a"}, place("mqtts://a:5671", "mqtt5"), False),
    ({"protocol": "amqp", "local": "svc/**"}, place("amqp:///svc/x", "amqp", "svc/x"), True),
    ({"protocol": "amqp", "local": "svc/**"}, place("amqp:///svc", "amqp", "svc"), True),
    ({"protocol": "amqp", "local": "svc/**"}, place("amqp:///svcx", "amqp", "svcx"), False),
    ({"protocol": "amqp", "local": "svc/**"}, place("amqp://host/svc/x", "amqp", "svc/x"), False),
    ({"protocol": "amqp", "local": "**"}, place("amqps://host/svc/x", "amqp", "svc/x"), False),
    ({"protocol": "amqp", "connector": "c"}, place("amqps://b.example", "amqp", "q"), True),
    ({"protocol": "amqp", "connector": "c"}, place("amqps://b.example:5672", "amqp", "q"), False),
    ({"protocol": "amqp", "connector": "c"}, place("amqp://b.example", "amqp", "q"), False),
    ({"protocol": "amqp", "connector": "c"}, place("amqp:///q", "amqp", "q"), False),
    ({"protocol": "amqp", "connector": "c", "address": "push/*"}, place("amqps://b.example", "amqp", "push/x"), True),
    ({"protocol": "amqp", "connector": "c", "address": "push/*"}, place("amqps://b.example", "amqp", "push"), False),
    ({"protocol": "kafka", "cluster": "m"}, place("kafka:///", "kafka", "any"), True),
    ({"protocol": "kafka", "cluster": "m"}, place("kafka:///", "kafka", "__consumer_offsets"), False),
    ({"protocol": "kafka", "cluster": "m", "topics": "*_offsets"}, place("kafka:///", "kafka", "__offsets"), False),
    ({"protocol": "kafka", "cluster": "m", "topics": "__*"}, place("kafka:///", "kafka", "__mine"), True),
    ({"protocol": "kafka", "to": "kafka://k1"}, place("kafka://k1", "kafka", "__x"), False),
    ({"protocol": "kafka", "cluster": "m", "topics": "out.*"}, place("kafka:///", "kafka", "out.x"), True),
    ({"protocol": "kafka", "cluster": "m", "topics": "out.*"}, place("kafka:///", "kafka", "outx"), False),
    ({"protocol": "kafka", "cluster": "m", "topics": "out.*"}, place("kafka:///", "kafka", "x.out.y"), False),
    ({"protocol": "kafka", "cluster": "m", "topics": ["a", "b"]}, place("kafka:///", "kafka", "b"), True),
    ({"protocol": "kafka", "cluster": "m", "topics": ["a", "b"]}, place("kafka:///", "kafka", "ab"), False),
    ({"protocol": "kafka", "cluster": "m"}, place("kafka://k1", "kafka", "any"), False),
    ({"protocol": "kafka", "to": "kafka://k1,k2:9093"}, place("kafka://k1,k2:9093", "kafka", "t"), True),
    ({"protocol": "kafka", "to": "kafka://k1,k2:9093"}, place("kafka://k1", "kafka", "t"), False),
    ({"protocol": "kafka", "to": "kafka://k1,k2:9093"}, place("kafka://k2:9093,k1", "kafka", "t"), False),
    ({"protocol": "kafka", "to": "kafka://k1,k2:9093"}, place("kafka://k1,k2:9093,k3", "kafka", "t"), False),
    ({"protocol": "kafka", "to": "kafka://k1"}, place("kafka://k1,evil", "kafka", "t"), False),
    ({"protocol": "kafka", "to": "kafka://k1", "topics": "x"}, place("kafka://k1", "kafka", "y"), False),
    ({"protocol": "kafka", "to": "kafka://k1"}, place("kafka:///", "kafka", "t"), False),
    ({"protocol": ["mqtt3", "mqtt5"], "to": "mqtts://m"}, place("mqtts://m", "mqtt3"), True),
    ({"protocol": ["mqtt3", "mqtt5"], "to": "mqtts://m"}, place("mqtts://m:8883", "mqtt5"), True),
    ({"protocol": "mqtt5", "to": "mqtts://m"}, place("mqtts://m", "mqtt3"), False),
    ({"protocol": "mqtt5", "to": "mqtts://m"}, place("mqtt://m:8883", "mqtt5"), False),
    ({"protocol": "nats", "to": "tls://n"}, place("tls://n:4222", "nats"), True),
    ({"protocol": "nats", "to": "tls://n"}, place("nats://n", "nats"), False),
    ({"protocol": "http", "to": "https://n"}, place("tls://n:443", "nats"), False),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "where", "allowed"), OTHERS)
def test_the_other_protocols_are_allowed_by_their_own_places(
    entry: dict[str, object], where: SinkDestination, allowed: bool
) -> None:
    made, containers = SinkEntry.model_validate(entry), frozenset([("amqps", "b.example", 5671)])
    found = sink_rule(made, containers, TopicPatterns(made.topics), PolicyLine("p", 1))
    assert (allows([found], where) is not None) is allowed


def test_the_first_rule_that_matches_decides_and_none_denies() -> None:
    first, second = rule("https://a.example", handshake="off"), rule("https://*.example")
    assert allows([first, second], place("https://a.example")) is first
    assert allows([first, second], place("https://b.example")) is second
    assert allows([], place("https://a.example")) is None


def test_these_are_three_hundred_places() -> None:
    assert sum(map(len, (PUBLIC, NOT_PUBLIC, NETWORKS, SPELLINGS, PLACES, OTHERS))) >= 290
