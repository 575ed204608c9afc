"""The users file: what it holds, every mistake at its place, and passwords checked against it."""

from __future__ import annotations

import hmac
import time
from base64 import b64decode, b64encode
from collections import Counter
from hashlib import sha256
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp.utils import ScramException, saslprep

from gateway.amqp.sasl import quick_yaml
from gateway.amqp.sasl.user_file import UsersError, load_users, make_entry, put_user
from gateway.amqp.sasl.verifiers import prepare

SALT = b"sixteen bytes..."


def test_the_exchange_printed_in_rfc_7677() -> None:
    # RFC 7677, 3: user "user", password "pencil".
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={salt},i=4096,c=biws,r={nonce}".encode()
    store = load_users(put_user("", "user", make_entry("pencil", salt=b64decode(salt))))
    kept = store.verifier("user", "scram-sha-256")
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    mask = hmac.digest(kept.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
    assert sha256(client_key).digest() == kept.stored_key
    signature = b64encode(hmac.digest(kept.server_key, message, "sha256"))
    assert signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_password_is_checked_against_either_hash() -> None:
    entry = make_entry("secret", salt=SALT)
    for name in ("scram-sha-256", "scram-sha-512"):
        store = load_users(put_user("", "bob", {name: entry[name]}))
        assert store.check_password("bob", "secret") == "bob"
        assert store.check_password("bob", "Secret") is None
        assert store.check_password("eve", "secret") is None
        assert store.check_password("bob", "\ud800") is None


def test_the_file_keeps_no_password() -> None:
    text = put_user("", "bob", make_entry("correct horse", salt=SALT))
    assert "horse" not in text


def test_put_user_keeps_comments_and_others_and_replaces() -> None:
    text = put_user("# ours\n", "bob", make_entry("one", salt=SALT))
    text = put_user(text, "eve", make_entry("two", salt=SALT))
    text = put_user(text, "bob", make_entry("three", salt=SALT))
    store = load_users(text)
    assert text.startswith("# ours\n")
    assert (len(store), "bob" in store, "eve" in store, "joe" in store) == (2, True, True, False)
    assert store.check_password("bob", "three")
    assert not store.check_password("bob", "one")
    assert store.check_password("eve", "two")


def test_names_are_prepared_like_passwords() -> None:
    text = put_user("", "jo\u0308rg", make_entry("x", salt=SALT))
    assert "jörg" in load_users(text)
    assert len(load_users(put_user(text, "jörg", make_entry("y", salt=SALT)))) == 1


@pytest.mark.parametrize("text", ["", "# nobody yet\n", "{}"])
def test_an_empty_file_lets_nobody_in(text: str) -> None:
    store = load_users(text)
    assert len(store) == 0
    assert store.check_password("bob", "x") is None


def test_unknown_users_get_the_same_invention_from_the_same_file() -> None:
    text = put_user("", "bob", make_entry("x", salt=SALT))
    one, two = (load_users(text).verifier("eve", "scram-sha-256") for _ in range(2))
    assert one == two
    assert (len(one.salt), one.iterations) == (len(SALT), 4096)
    assert load_users(text).verifier("joe", "scram-sha-256").salt != one.salt


MECHANISMS = ("scram-sha-256", "scram-sha-512")


def test_unknown_users_look_like_known_ones_at_both_mechanisms_and_after_a_change() -> None:
    # Real users have one salt for both hashes, and it stays when somebody else is added. So do invented ones.
    text = put_user("", "bob", make_entry("x", salt=SALT), secret=b"the secret of one file")
    before, after = load_users(text), load_users(put_user(text, "ann", make_entry("y", salt=SALT[::-1])))
    for name in ("bob", "eve"):
        seen = {(store.verifier(name, each).salt, store.verifier(name, each).iterations)
                for store in (before, after) for each in MECHANISMS}  # fmt: skip
        assert len(seen) == 1, name
    assert before.verifier("eve", "scram-sha-256").stored_key != before.verifier("eve", "scram-sha-512").stored_key


def test_invented_iterations_and_salts_are_as_frequent_as_the_files_own() -> None:
    text = ""
    for number in range(8):
        rounds, salt = (8192, SALT + SALT) if number < 2 else (4096, SALT)
        text = put_user(text, f"user{number}", make_entry("x", salt=salt, iterations=rounds))
    store = load_users(text)
    shapes = [store.verifier(f"nobody{number}", "scram-sha-256") for number in range(400)]
    seen = Counter((each.iterations, len(each.salt)) for each in shapes)
    assert seen.keys() == {(4096, 16), (8192, 32)}
    assert 60 < seen[8192, 32] < 140


def test_a_user_with_one_mechanism_does_not_show_it_at_the_other() -> None:
    text = put_user("", "bob", {"scram-sha-256": make_entry("x", salt=SALT)["scram-sha-256"]})
    store = load_users(text)
    one, other = (store.verifier("bob", each) for each in MECHANISMS)
    assert (one.salt, one.iterations) == (other.salt, other.iterations)


@pytest.mark.parametrize("text", ["n" * 256, "\ufdfa" * 255, "\ufdfa" * 15, "\xe9" * 256])
def test_texts_over_255_characters_are_refused_before_they_take_time(text: str) -> None:
    began = time.thread_time()
    for _ in range(20):
        assert prepare(text) is None
    assert (time.thread_time() - began) / 20 < 0.005


def test_texts_of_255_characters_are_prepared() -> None:
    assert prepare("n" * 255) == "n" * 255
    assert prepare("\xe9" * 255) == "\xe9" * 255


ASCII = st.text(st.characters(max_codepoint=127), max_size=12)


@given(ASCII)
def test_the_short_way_for_ascii_is_saslprep(text: str) -> None:
    try:
        wanted = saslprep(text) or None
    except ScramException:
        wanted = None
    assert prepare(text) == wanted


NAME = st.text("abcNno7*$~ .\xe9:'\"#-", min_size=1, max_size=6)
FIELD = st.sampled_from(
    ["AAAA", "4096", "'4096'", "04096", "1:30:00", "4_096", "null", "~", "[]", "c2l4dGVlbiBieXRlcw=="]
)


@given(st.lists(st.tuples(NAME, st.sampled_from(["", "salt", "iterations", "stored_key"]), FIELD), max_size=4))
def test_the_quick_parser_takes_only_what_the_general_one_takes_alike(users: list[tuple[str, str, str]]) -> None:
    entries = [(name, entry(**({key: value} if key else {})).partition("\n")[2]) for name, key, value in users]
    text = "".join(f"{name}:\n{fields}" for name, fields in entries)
    outcomes = []
    for parse in (quick_yaml.parse, failing):
        with mock.patch.object(quick_yaml, "parse", parse):
            try:
                outcomes.append(load_users(text)._users)
            except UsersError as error:
                outcomes.append(error.problems)
    assert outcomes[0] == outcomes[1]


def failing(text: str) -> dict[str, Any]:
    raise quick_yaml.Unsure


def test_a_thousand_users_are_read_many_times_as_fast_as_by_the_general_parser() -> None:
    """5,000 take half a second instead of six on a quiet machine."""
    one = put_user("", "user", make_entry("x", salt=SALT))
    text = "".join(one.replace("user:", f"user{number}:", 1) for number in range(1000))

    def seconds() -> float:
        began = time.thread_time()
        assert len(load_users(text)) == 1000
        return time.thread_time() - began

    quick = min(seconds() for _ in range(3))
    with mock.patch.object(quick_yaml, "parse", failing):
        assert 4 * quick < seconds()


GOOD = make_entry("x", salt=SALT)["scram-sha-256"]


def entry(**changes: object) -> str:
    fields = {**GOOD, **changes}
    return "bob:\n  scram-sha-256:\n" + "".join(f"    {key}: {value}\n" for key, value in fields.items())


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("- bob", ["1:1: the users file must be a map"]),
        ("bob: {", ["1:7: "]),
        ("bob: {}\nbob: {}", ["2:1: "]),
        (
            "bob: secret",
            ["1:1: user 'bob': must be a map with scram-sha-256, scram-sha-512"],
        ),
        ("bob: {}", ["1:1: user 'bob' needs at least one of scram-sha-256, scram-sha-512"]),
        ("7: {}", ["1:1: a user name must be text"]),
        ("anonymous: {}", ["1:1: no user can be called 'anonymous'"]),
        ("'*': {}", ["1:1: no user can be called '*'"]),
        ("$secret: AAAA", ["1:1: $secret, $secret: must be base64 of 16 to 255 bytes"]),
        ("bob: {password: x}", ["1:7: user 'bob': unknown key 'password'; allowed: scram-sha-256"]),
        (
            "bob: {scram-sha-256: {salt: x}}",
            ["1:7: user 'bob', scram-sha-256: missing iterations, stored_key"],
        ),
        (entry(salt="!!"), ["3:5: user 'bob', scram-sha-256, salt: must be base64 of 12 to 255 bytes"]),
        (entry(salt="AAAA"), ["3:5: "]),
        (
            entry(iterations=4095),
            ["4:5: user 'bob', scram-sha-256, iterations: must be a whole number from 4096"],
        ),
        (entry(iterations="'4096'"), ["4:5: "]),
        (entry(iterations=10**9), ["4:5: "]),
        (
            entry(stored_key="AAAA"),
            ["5:5: user 'bob', scram-sha-256, stored_key: must be base64 of exactly 32 bytes"],
        ),
        (entry(server_key="[]"), ["6:5: "]),
        (entry(extra=1), ["7:5: user 'bob', scram-sha-256: unknown key 'extra'; allowed: salt"]),
        (entry(salt="x", iterations=1), ["3:5: ", "4:5: "]),
        ("\x00", ["1:1: "]),
        ("bob: " + "{a: " * 100_000, ["1:1: too deep: the users file must be a map of user names"]),
    ],
)
def test_every_mistake_is_named_where_it_is(text: str, problems: list[str]) -> None:
    with pytest.raises(UsersError) as caught:
        load_users(text)
    assert len(caught.value.problems) == len(problems), caught.value.problems
    for got, wanted in zip(caught.value.problems, problems, strict=True):
        assert wanted in got


@pytest.mark.parametrize(("password", "salt"), [("", SALT), ("a\0b", SALT), ("x", b"short")])
def test_entries_that_cannot_be_made(password: str, salt: bytes) -> None:
    with pytest.raises(ValueError, match=r"password|salt"):
        make_entry(password, salt=salt)


def test_rounds_have_bounds() -> None:
    for rounds in (1, 10**7):
        with pytest.raises(ValueError, match="iterations"):
            make_entry("x", salt=SALT, iterations=rounds)
