"""No spelling of an address shows a token or the name of a temporary node; other addresses are readable (redaction)."""

from __future__ import annotations

import re
import secrets
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.observability.redaction import redact
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.keys import COOKIE, REPLY_TO, RETURN, KeyRing, SigningSecret
from gateway.response.cookies.maker import seal
from tests.support.plugins.examples import examples

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)
KEY_IDS = st.from_regex(r"[!-~]{1,64}", fullmatch=True)
RINGS = st.builds(
    lambda name, sealing: KeyRing(name, {name: SigningSecret(b"k" * 32)}, seal=sealing), KEY_IDS, st.booleans()
)
COOKIES = st.builds(
    Cookie,
    scope=NAMES,
    link_target=NAMES.map(lambda name: f"$replies.{name}") | st.just("T"),
    address=st.none() | st.text(max_size=40),
    expiry_ms=st.integers(0, 1 << 45),
    inner_cookie=st.none() | st.binary(max_size=40),
    uses=st.none() | st.builds(Uses, st.integers(1, 9), st.binary(min_size=12, max_size=12)),
)
TOKENS = st.builds(
    lambda ring, cookie, purpose: to_url(seal(ring, cookie, purpose)).decode(),
    RINGS,
    COOKIES,
    st.sampled_from([COOKIE, REPLY_TO, RETURN]),
)
DOLLARS = st.sampled_from(["$", "%24", "%2524", ""])
WORDS = st.sampled_from(["replies", "REPLIES", "Replies"])
SEPARATORS = st.sampled_from(["/", "//", ".", ":", "-", "_", "", "\\", "%2F", "%2f", "%252F", "#", " /", "/ "])
BEFORE = st.sampled_from(["", "/", "queue://", "topic:", "amqp://host:5672/", "link-1-", "'", "x/"])
AFTER = st.sampled_from(["", "/", "/$info", "'", "\n", "==", " is no address", "?a=b"])


@settings(max_examples=examples(600), deadline=None)
@given(BEFORE, DOLLARS, WORDS, SEPARATORS, NAMES, SEPARATORS, TOKENS, AFTER)
def test_no_spelling_shows_a_token(
    before: str, dollar: str, word: str, between: str, scope: str, separator: str, token: str, after: str
) -> None:
    shown = redact(f"{before}{dollar}{word}{between}{scope}{separator}{token}{after}")
    assert token[:24] not in shown
    assert token[-24:] not in shown


@settings(max_examples=examples(300), deadline=None)
@given(
    BEFORE,
    st.sampled_from(["$", "%24", "%2524"]),
    st.sampled_from(["temp", "TEMP"]),
    st.sampled_from(["/", "//", ".", ":", "-", "_", "\\", "%2F", "%252f"]),
    AFTER,
)
def test_no_spelling_shows_the_name_of_a_temporary_node(
    before: str, dollar: str, word: str, separator: str, after: str
) -> None:
    name = secrets.token_urlsafe(16)
    assert name not in redact(f"{before}{dollar}{word}{separator}{name}{after}")


@settings(max_examples=examples(300), deadline=None)
@given(NAMES, st.sampled_from(["{}", "'{}' has no receiver", "'{}': no right", "{}: no right", "({})", "to {}."]))
def test_the_response_address_of_a_scope_is_readable(scope: str, sentence: str) -> None:
    text = sentence.format(f"$replies.{scope}")
    assume(len(text) < 40)
    assert redact(text) == text


@settings(max_examples=examples(300), deadline=None)
@given(st.from_regex(r"[A-Za-z0-9/._:~+ -]{0,60}", fullmatch=True))
def test_other_addresses_are_readable(text: str) -> None:
    """But for what is as long as a token, and begins like one or like a web token."""
    assume(re.search(r"[\w-]{40}|eyj", text, re.IGNORECASE) is None)
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "AQA", "A", "AQA" * 13 + ".", "$replies.", "$replies.a/", "$replies.a-", "$temp", "$", "%25", "%2524replies",
        "%24temp%", "a.",
    ],
)  # fmt: skip
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    begun = time.thread_time()
    for start in ("", "$replies.", "AQA"):
        redact(start + piece * (1_000_000 // len(piece)))
    assert time.thread_time() - begun < 5
