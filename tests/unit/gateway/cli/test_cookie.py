"""`scopegate cookie inspect`: what a token says, whether it is valid now, and never a key."""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.amqp.codec.codec import encode
from gateway.cli.main import main
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.cookie_store import CookieStore
from gateway.response.cookies.keys import REPLY_TO, KeyRing, SigningSecret
from gateway.response.cookies.maker import CookieMaker, seal
from gateway.response.cookies.token_layout import MIN_LIMIT
from gateway.response.correlation_ids import CorrelationRewriter
from gateway.response.message_id import ScopeIds
from tests.support.amqp.messages import message, sections
from tests.support.gateway.process import free_port
from tests.support.servers.servers import Redis

SECRET = b"thirty-two bytes and some more.."
TEXT = to_url(SECRET).decode()
POLICY = """
keys: {active: one, ring: {one: {env: INSPECT_KEY}}, skew: 1m, seal: true}
scopes: {edge: , core: }
"""
FAR = 1 << 42
GOOD = Cookie("edge", "$replies.core", "q/1", FAR, b"secret of another", "T1", Uses(2, b"n" * 12))
RINGS = [KeyRing("one", {"one": SigningSecret(SECRET)}, seal=seal) for seal in (False, True)]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("INSPECT_KEY", TEXT)
    file = tmp_path / "p.yaml"
    file.write_text(POLICY)
    return str(file)


def inspect(policy: str, text: str, *, stdin: bool = False) -> Result:
    args = ["cookie", "inspect", policy] + ([] if stdin else ["--cookie", text])
    result = CliRunner().invoke(main, args, input=text if stdin else None)
    assert TEXT not in result.output
    assert SECRET.hex() not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def printed_fields(result: Result) -> dict[str, str]:
    return {line[:14].strip(): line[15:] for line in result.stdout.splitlines()}


@pytest.mark.parametrize("ring", RINGS, ids=["signed", "sealed"])
def test_a_cookie_in_every_spelling(policy: str, ring: KeyRing) -> None:
    data = seal(ring, GOOD)
    spellings = [
        data.hex(),
        data.hex().upper(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        to_url(data).decode(),
    ]
    for text in spellings:
        for stdin in (True, False):
            result = inspect(policy, text + "\n", stdin=stdin)
            assert result.exit_code == 0
            assert printed_fields(result) == {
                "kind": "response-address cookie",
                "form": "sealed" if ring.sealing else "signed",
                "key": "one",
                "scope": "edge",
                "link target": "$replies.core",
                "reply address": "q/1",
                "expires": "2109-05-15T07:35:11.104+00:00",
                "inner cookie": "17 bytes",
                "inner target": "T1",
                "responses": "at most 2",
                "result": "valid",
            }


@pytest.mark.parametrize("ring", RINGS, ids=["signed", "sealed"])
def test_a_rewritten_address_and_a_rewritten_id(policy: str, ring: KeyRing) -> None:
    address = "$replies.core/" + to_url(seal(ring, GOOD, REPLY_TO)).decode()
    result = inspect(policy, address)
    assert (result.exit_code, printed_fields(result)["kind"]) == (0, "rewritten reply address")
    result = inspect(policy, address.replace("core", "edge"))
    assert (result.exit_code, printed_fields(result)["result"]) == (1, "not valid: wrong link target")
    name = ScopeIds(ring, "edge", secrets.token_bytes).mint(b"\x53\x2a")
    result = inspect(policy, name[2:].decode())
    assert result.exit_code == 0
    assert printed_fields(result)["kind"] == "rewritten message-id"
    assert printed_fields(result)["key"] == "one"
    assert "42" in printed_fields(result)["original id"]


@pytest.mark.parametrize("ring", RINGS, ids=["signed", "sealed"])
def test_an_id_that_brings_its_response_home(policy: str, ring: KeyRing) -> None:
    now = time.time_ns() // 1_000_000
    carrier = CorrelationRewriter(ring, "edge", "core", "$replies.core", 60_000)
    request = carrier.rewrite(message(reply_to="q/1", message_id="m-1"), now, reply_to=encode("broker/answers"))
    result = inspect(policy, sections(request)["properties"]["message_id"])
    assert result.exit_code == 0
    reported = printed_fields(result)
    assert reported["kind"] == "rewritten message-id that brings its response home"
    assert (reported["key"], reported["original id"], reported["reply address"]) == ("one", "'m-1'", "q/1")


def test_expired_is_shown_with_what_it_says_and_skew_counts(policy: str) -> None:
    now = time.time_ns() // 1_000_000
    late = inspect(policy, seal(RINGS[0], GOOD._replace(expiry_ms=now - 61_000)).hex())
    assert (late.exit_code, printed_fields(late)["result"], printed_fields(late)["scope"]) == (
        1,
        "not valid: expired",
        "edge",
    )
    assert inspect(policy, seal(RINGS[0], GOOD._replace(expiry_ms=now - 30_000)).hex()).exit_code == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "wrong length"),
        ("nonsense?", "not base64url"),
        ("00" * 64, "unknown version"),
        (seal(RINGS[0], GOOD)[:-1].hex(), "wrong MAC"),
        (seal(KeyRing("two", {"two": SigningSecret(SECRET)}), GOOD).hex(), "unknown key"),
        (seal(RINGS[1], GOOD, REPLY_TO).hex(), "wrong MAC"),
        (seal(RINGS[0], GOOD._replace(scope="gone")).hex(), "its scope is not in this policy"),
        ("$replies.core/", "wrong length"),
        ("ID:sg-AAAA", "wrong length"),
    ],
)
def test_what_is_not_valid_says_why_and_nothing_else(policy: str, text: str, reason: str) -> None:
    result = inspect(policy, text)
    assert result.exit_code == 1
    assert printed_fields(result)["result"] == f"not valid: {reason}"


def test_without_keys_nothing_can_be_said(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("scopes: {edge: }")
    result = inspect(str(file), "00")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there are no keys" in result.stderr
    assert inspect(str(tmp_path / "none.yaml"), "00").exit_code == 1


def test_a_reference_is_shown_without_what_only_the_gateway_knows(policy: str) -> None:
    store = CookieStore(RINGS[0], MIN_LIMIT)
    data = CookieMaker(RINGS[0], "edge", "$replies.core", overflow=store).make(GOOD._replace(address="x" * 400))
    result = inspect(policy, data.hex())
    assert result.exit_code == 0
    assert printed_fields(result) | {"expires": ""} == {
        "kind": "response-address cookie",
        "form": "signed",
        "key": "one",
        "kept": "in the memory of the gateway (gateway.state: memory), where only that looks",
        "scope": "edge",
        "link target": "$replies.core",
        "expires": "",
        "result": "valid",
    }


def test_a_reference_is_followed_into_redis(policy: str, redis_server: Redis) -> None:
    store = CookieStore(RINGS[0], MIN_LIMIT)
    data = CookieMaker(RINGS[0], "edge", "$replies.core", overflow=store).make(GOOD._replace(address="x" * 400))
    file = Path(policy)
    file.write_text(f"gateway: {{state: '{redis_server.url}'}}\n{POLICY}")
    lost = inspect(policy, data.hex())
    assert (lost.exit_code, printed_fields(lost)["result"]) == (1, "not valid: not in the store")
    (pending_cookie,) = store.pending
    redis_server.command("SET", f"scopegate:{pending_cookie.key}", to_url(pending_cookie.value).decode())
    assert printed_fields(inspect(policy, data.hex()))["result"] == "not valid: changed in the store"
    keep(redis_server, f"scopegate:{pending_cookie.key}", pending_cookie.value)
    found = printed_fields(inspect(policy, data.hex()))
    assert found["kept"] == f"in {redis_server.url}"
    assert (found["reply address"], found["responses"], found["result"]) == ("x" * 400, "at most 2", "valid")
    file.write_text(f"gateway: {{state: 'redis://127.0.0.1:{free_port()}'}}\n{POLICY}")
    away = printed_fields(inspect(policy, data.hex()))
    assert "does not answer" in away["kept"]
    assert "reply address" not in away


def keep(redis: Redis, key: str, value: bytes) -> None:
    """Set bytes that no command line can hold."""
    text = "(ARGV[1]:gsub('..', function(x) return string.char(tonumber(x, 16)) end))"
    script = f"return redis.call('SET', KEYS[1], {text})"
    redis.command("EVAL", script, "1", key, value.hex())
