"""Keys, and cookies as bytes: the format of docs/cookies.md and every reason to refuse one."""

from __future__ import annotations

import hmac
import re
import secrets

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS, section
from gateway.errors import PRECONDITION_FAILED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.cookies.base64url import from_url, to_url
from gateway.response.cookies.cookie import Cookie, Uses, describe
from gateway.response.cookies.cookie_store import CookieStore
from gateway.response.cookies.keys import COOKIE, REPLY_TO, BadToken, KeyRing, SigningSecret, new_secret
from gateway.response.cookies.maker import CookieMaker, seal, template
from gateway.response.cookies.reader import open_cookie, open_token
from gateway.response.cookies.token_layout import MAX_TOKEN, NONCE_BYTES
from gateway.response.message_id import MARK, UNIQUE_BYTES, ScopeIds, open_id, seal_id
from gateway.response.restore import LinkTarget
from policies.load.secrets import signing_key
from tests.support.project.parts import ROOT

DOCUMENT = ROOT / "docs" / "cookies.md"
NOW = 1_700_000_000_000
SECRET = bytes(range(32))
OTHER = bytes(range(32, 64))
RING = KeyRing("2026-11", {"2026-11": SigningSecret(SECRET)})
FULL = Cookie("edge", "$responses", "replies/1", NOW, b"\x00inner\xff", "previous/T")
COOKIES = [
    FULL,
    FULL._replace(address=None),
    FULL._replace(inner_cookie=None),
    FULL._replace(inner_target=None),
    FULL._replace(inner_cookie=None, inner_target=None),
    FULL._replace(address="", inner_cookie=b"", inner_target=""),
    Cookie("ä", "", "ö" * 300, 0),
    FULL._replace(uses=Uses(65_535, b"n" * NONCE_BYTES)),
]


def refused(ring: KeyRing, data: bytes, now_ms: int = NOW) -> tuple[str, str, str]:
    """Condition and words for the peer, and the reason for the log."""
    with pytest.raises(AmqpError) as caught:
        open_cookie(ring, data, now_ms)
    cause = caught.value.__cause__
    assert isinstance(cause, BadToken)
    return caught.value.condition, caught.value.description, cause.reason


@pytest.mark.parametrize("cookie", COOKIES)
def test_what_is_sealed_is_opened(cookie: Cookie) -> None:
    assert open_cookie(RING, seal(RING, cookie), min(NOW, cookie.expiry_ms)) == cookie


SEALED = KeyRing("2026-11", {"2026-11": SigningSecret(SECRET)}, seal=True)


@pytest.mark.parametrize("cookie", COOKIES)
def test_sealed_cookies_say_nothing_and_are_opened_by_either_ring(cookie: Cookie) -> None:
    made = [seal(SEALED, cookie) for _ in range(3)]
    assert len(set(made)) == 3
    for data in made:
        assert [ring_open for ring in (RING, SEALED) if (ring_open := open_cookie(ring, data, 0)) != cookie] == []
        shown = [part for part in cookie if isinstance(part, str | bytes) and len(part) > 3]
        clear = [part if isinstance(part, bytes) else part.encode() for part in shown]
        assert [part for part in clear if part in data] == []
    assert open_cookie(SEALED, seal(RING, cookie), 0) == cookie


@pytest.mark.parametrize("reason_and_data", ["bit", "cut", "longer", "secret", "purpose", "key", "short"])
def test_a_spoiled_seal_gives_the_one_refusal(reason_and_data: str) -> None:
    data = seal(SEALED, FULL)
    other = KeyRing("2026-11", {"2026-11": SigningSecret(OTHER)}, seal=True)
    spoiled = {
        "bit": [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))],
        "cut": [data[:length] for length in range(len(data))],
        "longer": [data + b"\0"],
        "secret": [seal(other, FULL)],
        "purpose": [seal(SEALED, FULL, REPLY_TO)],
        "key": [seal(KeyRing("other", {"other": SigningSecret(SECRET)}, seal=True), FULL)],
        "short": [b"\x03" + bytes(29), b"\x03\xff" + bytes(40), SEALED.sealer(COOKIE).seal(b"")],
    }
    for each in spoiled[reason_and_data]:
        assert refused(SEALED, each)[:2] == (UNAUTHORIZED_ACCESS, "the response address cookie is not valid here")


def test_sealed_ids_hide_the_original_and_both_forms_are_translated() -> None:
    original = encode("order-4711")
    sealing, signing = ScopeIds(SEALED, "edge", secrets.token_bytes), ScopeIds(RING, "edge", secrets.token_bytes)
    made = [sealing.mint(original), sealing.mint(original), signing.mint(original)]
    assert len(set(made)) == 3
    for name in made:
        assert (sealing.original(name, NOW), signing.original(name, NOW)) == (original, original)
        assert ScopeIds(SEALED, "core", secrets.token_bytes).original(name, NOW) is None
    token = from_url(made[0][2 + len(MARK) :])
    assert b"order" not in token
    assert b"edge" not in token


@pytest.mark.parametrize("code", [0xB0, 0xB3], ids=["binary", "symbol"])
def test_an_id_of_another_type_is_somebody_elses(code: int) -> None:
    """Binary and string ids with the same bytes are different ids."""
    made = ScopeIds(RING, "edge", secrets.token_bytes).mint(encode("order-4711" * 20))
    assert made[0] == 0xB1
    reader = ScopeIds(RING, "edge", secrets.token_bytes)
    assert reader.original(made, NOW) == encode("order-4711" * 20)
    assert reader.original(bytes([code]) + made[1:], NOW) is None


def test_the_longest_id_that_is_made_is_read_under_another_key_too() -> None:
    made = ScopeIds(RING, "edge", secrets.token_bytes)
    room = MAX_TOKEN - len(seal_id(RING, "edge", b"", bytes(UNIQUE_BYTES)))
    longest = b"\xb1" + (room - 5).to_bytes(4, "big") + b"x" * (room - 5)
    later = ScopeIds(
        KeyRing("new", {"new": SigningSecret(b"n" * 32), "2026-11": SigningSecret(SECRET)}), "edge", secrets.token_bytes
    )
    assert later.original(made.mint(longest), NOW) == longest
    with pytest.raises(AmqpError, match=RESOURCE_LIMIT_EXCEEDED):
        made.mint(longest + b"x")


def test_seals_are_numbered_under_a_key_of_their_process() -> None:
    """Nonces cannot repeat: two rings draw different salts, and one counts."""
    salts = {seal(KeyRing("a", {"a": SigningSecret(SECRET)}, seal=True), FULL)[3:19] for _ in range(100)}
    assert len(salts) == 100
    ring = KeyRing("a", {"a": SigningSecret(SECRET)}, seal=True)
    numbers = [int.from_bytes(seal(ring, FULL)[19:27], "big") for _ in range(10)]
    assert numbers == list(range(numbers[0], numbers[0] + 10))


def test_more_makers_than_are_remembered_are_opened() -> None:
    ring = KeyRing("a", {"a": SigningSecret(SECRET)})
    for _ in range(600):
        assert open_cookie(ring, seal(KeyRing("a", {"a": SigningSecret(SECRET)}, seal=True), FULL), NOW) == FULL


def test_skew_is_how_long_after_its_expiry_a_cookie_counts() -> None:
    patient = KeyRing("2026-11", {"2026-11": SigningSecret(SECRET)}, skew_ms=1000)
    data = seal(RING, FULL)
    assert open_cookie(patient, data, NOW + 1000) == FULL
    assert refused(patient, data, NOW + 1001)[0] == PRECONDITION_FAILED
    target = LinkTarget(patient, "$responses", ("edge",))
    response = section(DELIVERY_ANNOTATIONS, {Symbol("address-cookie"): data})
    for _ in range(2):  # verified, and remembered
        assert target.restore(response, NOW + 1000).address == "replies/1"
        with pytest.raises(AmqpError, match=PRECONDITION_FAILED):
            target.restore(response, NOW + 1001)


def test_the_last_valid_millisecond_is_the_expiry() -> None:
    data = seal(RING, FULL)
    assert open_cookie(RING, data, NOW) == FULL
    condition, _, reason = refused(RING, data, NOW + 1)
    assert (condition, reason) == (PRECONDITION_FAILED, "expired")


def test_a_forged_cookie_is_unauthorized_even_when_it_says_it_has_expired() -> None:
    data = seal(RING, FULL)
    assert refused(RING, data[:-1] + bytes([data[-1] ^ 1]), NOW + 1)[0] == UNAUTHORIZED_ACCESS


def sealed_by_hand(payload: bytes) -> bytes:
    return payload + RING.signer(COOKIE).mac(payload)


HEAD = template(RING, "edge", "T")
EXPIRY = NOW.to_bytes(6, "big")
WRONG = {
    "wrong length": [b"", seal(RING, FULL)[:20], bytes(MAX_TOKEN + 1)],
    "unknown version": [b"\x02" + seal(RING, FULL)[1:]],
    "unknown key": [seal(KeyRing("other", {"other": SigningSecret(SECRET)}), FULL)],
    "wrong MAC": [
        seal(KeyRing("2026-11", {"2026-11": SigningSecret(OTHER)}), FULL),
        seal(RING, FULL, REPLY_TO),
        seal(RING, FULL)[:-1],
        seal(RING, FULL) + b"\0",
    ],
    "unknown flags": [sealed_by_hand(b"\x01\x08" + HEAD + EXPIRY)],
    "wrong field lengths": [
        sealed_by_hand(b"\x01\x00" + HEAD + EXPIRY + b"\0"),
        sealed_by_hand(b"\x01\x01" + HEAD + EXPIRY + b"\x00\x09short"),
        sealed_by_hand(b"\x01\x00" + HEAD),
    ],
    "text is not UTF-8": [sealed_by_hand(b"\x01\x01" + HEAD + EXPIRY + b"\x00\x01\xff")],
}


@pytest.mark.parametrize(("reason", "data"), [(r, d) for r, all_ in WRONG.items() for d in all_])
def test_the_log_learns_the_reason_and_the_peer_the_same_words_for_all(reason: str, data: bytes) -> None:
    condition, words, logged = refused(RING, data)
    assert condition == UNAUTHORIZED_ACCESS
    assert words == "the response address cookie is not valid here"
    assert logged == reason


def test_rotation_old_keys_verify_until_their_date_and_never_sign() -> None:
    old = KeyRing("a", {"a": SigningSecret(SECRET)})
    new = KeyRing("b", {"a": SigningSecret(SECRET, until_ms=NOW), "b": SigningSecret(OTHER)})
    cookie = FULL._replace(expiry_ms=NOW + 10)
    assert open_cookie(new, seal(old, cookie), NOW) == cookie
    assert refused(new, seal(old, cookie), NOW + 1)[2] == "retired key"
    assert seal(new, cookie)[2:4] == b"\x01b"
    assert refused(old, seal(new, cookie))[2] == "unknown key"


def test_a_cookie_that_cannot_fit_is_refused_when_it_is_made() -> None:
    for long in (FULL._replace(address="a" * 70_000), FULL._replace(inner_cookie=bytes(MAX_TOKEN - 60))):
        with pytest.raises(AmqpError) as caught:
            seal(RING, long)
        assert caught.value.condition == RESOURCE_LIMIT_EXCEEDED


def test_expiry_is_kept_within_six_bytes() -> None:
    assert open_cookie(RING, seal(RING, FULL._replace(expiry_ms=-5)), 0).expiry_ms == 0
    late = open_cookie(RING, seal(RING, FULL._replace(expiry_ms=2**62)), NOW)
    assert describe(late)["expires"] == "9999-12-31T23:59:59.999+00:00"


def test_described_for_people_without_the_inner_cookie() -> None:
    assert describe(FULL) == {
        "scope": "edge",
        "link target": "$responses",
        "reply address": "replies/1",
        "expires": "2023-11-14T22:13:20.000+00:00",
        "inner cookie": "7 bytes",
        "inner target": "previous/T",
        "responses": "any number",
    }
    assert describe(COOKIES[1])["reply address"] == "none"


@pytest.mark.parametrize("text", ["AQ=", "A", "A+", "AB", "AQ ", "AQ\n", "ÄQ", "AQ==", "AR"])
def test_only_one_spelling_of_base64url_is_accepted(text: str) -> None:
    with pytest.raises(BadToken):
        from_url(text.encode())
    assert from_url(to_url(b"\x01")) == b"\x01"


def test_a_new_secret_is_a_signing_key_as_the_policy_reads_it() -> None:
    assert signing_key(new_secret(lambda n: b"\xff" * n).encode()) == b"\xff" * 32


@pytest.mark.parametrize(
    ("active", "keys"),
    [
        ("a", {}),
        ("a", {"a": SigningSecret(b"short")}),
        ("", {"": SigningSecret(SECRET)}),
        ("a b", {"a b": SigningSecret(SECRET)}),
        ("ä", {"ä": SigningSecret(SECRET)}),
        ("a" * 65, {"a" * 65: SigningSecret(SECRET)}),
    ],
)
def test_a_ring_that_cannot_work_is_refused(active: str, keys: dict[str, SigningSecret]) -> None:
    with pytest.raises(ValueError, match="key"):
        KeyRing(active, keys)


def test_a_key_does_not_show_its_secret() -> None:
    assert SECRET.hex() not in repr(SigningSecret(SECRET))
    assert str(SECRET) not in repr(SigningSecret(SECRET))


def vectors() -> dict[str, str]:
    """`name: hex` lines of the document's vectors."""
    return dict(re.findall(r"^(vector-\w+): ([0-9a-f]+)$", DOCUMENT.read_text(), re.MULTILINE))


def test_the_documented_vectors_are_what_the_code_makes() -> None:
    plain = Cookie("edge", "$responses", "replies/1", NOW)
    limited = plain._replace(uses=Uses(1, b"\xbb" * NONCE_BYTES))
    store = CookieStore(RING, 384, token_bytes=lambda count: b"\xaa" * count)
    made = {
        "vector-1": seal(RING, plain),
        "vector-2": seal(RING, Cookie("core", "T2", None, NOW, bytes.fromhex("c0ffee"), "T1")),
        "vector-3": seal(RING, Cookie("edge", "r", "replies/1", NOW), REPLY_TO),
        "vector-4": seal_id(RING, "edge", b"\x53\x2a", bytes(8)),
        "vector-5": seal(fixed(), plain),
        "vector-6": from_url(ScopeIds(fixed(), "edge", bytes).mint(b"\x53\x2a")[2 + len(MARK) :]),
        "vector-7": seal(RING, limited),
        "vector-8": CookieMaker(RING, "edge", "$responses", overflow=store).make(limited._replace(address="r" * 400)),
    }
    assert vectors() == {name: value.hex() for name, value in made.items()}
    for name, mark in (("vector-3", "r/"), ("vector-4", "ID:sg-"), ("vector-6", "ID:sg-")):
        assert f"`{mark}{to_url(made[name]).decode()}`" in DOCUMENT.read_text()
    assert open_token(RING, made["vector-3"], NOW, REPLY_TO).address == "replies/1"
    assert open_id(RING, made["vector-4"], NOW) == ("edge", b"\x53\x2a")
    assert open_id(RING, made["vector-6"], NOW) == ("edge", b"\x53\x2a")


def fixed() -> KeyRing:
    """A sealing ring whose salt is aa… and whose first number is 1."""
    drawn = {16: b"\xaa" * 16, 8: (2).to_bytes(8, "big")}
    return KeyRing("2026-11", {"2026-11": SigningSecret(SECRET)}, seal=True, token_bytes=drawn.__getitem__)


def test_the_sealed_vector_is_made_as_the_document_says() -> None:
    """By its words alone: another implementation could read it."""
    token = bytes.fromhex(vectors()["vector-5"])
    head, start = token[: 2 + 7 + 16 + 8], 2 + 7
    derived = hmac.digest(SECRET, b"scopegate/seal/cookie", "sha256")
    cipher = AESGCM(hmac.digest(derived, token[start : start + 16], "sha256"))
    content = cipher.decrypt(bytes(4) + token[start + 16 : start + 24], token[len(head) :], head)
    assert (head[:9], content[:1]) == (b"\x03\x072026-11", b"\x01")
    signed = bytes.fromhex(vectors()["vector-1"])
    assert content[1:] == signed[3 + 7 : -16]
