"""`scopegate cookie inspect`: the contents of a cookie, a rewritten address or a rewritten id, with the policy's
keys."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.response.cookies.cookie import Cookie, CookieReference
    from gateway.response.cookies.keys import KeyRing, Purpose
    from policies.rules import CompiledPolicy

_MAX_INPUT: Final = 10_000
"""Maximum characters of the input; the longest token has under 6000 in base64 and 8192 in hex."""
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+", re.ASCII)
_REPLIES: Final = re.compile(r"\$replies\.([^/]*)/(.*)", re.DOTALL)
_ID: Final = "ID:sg-"
_SIGNED: Final = 1
_VALID: Final = "valid"
_OF_A_REFERENCE: Final = ("scope", "link target", "expires")


@click.group()
def cookie() -> None:
    """Inspect the cookies that the gateway sends to other scopes."""


@cookie.command(epilog="Exit codes: 0 valid now; 1 not valid, or a mistake in the file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--cookie", "text", default="-", help="Base64, hex, a $replies address or an ID:sg-… id; -: from stdin.")
def inspect(file: Path, text: str) -> None:
    """Show the contents of a cookie, a rewritten reply address or a rewritten message-id, and whether it is valid now.

    It uses the keys of the policy FILE, and never prints a key.
    """
    from gateway.config.policy import load, make_ring
    from policies.text.diagnostics import PolicyErrors

    try:
        policy = load(file)
    except PolicyErrors as errors:
        click.echo(errors, err=True)
        sys.exit(1)
    if policy.signing is None:
        click.echo(f"{file}: there are no keys, so nothing can be verified", err=True)
        sys.exit(1)
    given = (sys.stdin.read(_MAX_INPUT) if text == "-" else text).strip()
    lines = list(_inspected(policy, make_ring(policy.signing), given, time.time_ns() // 1_000_000))
    for line in lines:
        click.echo(line)
    sys.exit(0 if lines[-1] == _line("result", _VALID) else 1)


def _inspected(policy: CompiledPolicy, ring: KeyRing, given: str, now_ms: int) -> Iterator[str]:
    """The lines of the output; the last is the result."""
    from gateway.response.cookies import keys
    from gateway.response.cookies.base64url import from_url
    from gateway.response.cookies.keys import BadToken

    place = _REPLIES.fullmatch(given)
    try:
        if given.startswith(_ID):
            yield from _id(policy, ring, from_url(given.removeprefix(_ID).encode()), now_ms)
        elif place is not None:
            data = from_url(place[2].encode("ascii", "replace"))
            yield from _token(policy, ring, data, now_ms, keys.REPLY_TO, f"$replies.{place[1]}")
        else:
            yield from _token(policy, ring, _bytes(given), now_ms, keys.COOKIE, None)
    except BadToken as fault:
        yield _line("result", f"not valid: {fault.reason}")


def _token(
    policy: CompiledPolicy, ring: KeyRing, data: bytes, now_ms: int, purpose: Purpose, used_at: str | None
) -> Iterator[str]:
    from gateway.response.cookies.cookie import CookieReference, check_expiry, describe
    from gateway.response.cookies.keys import COOKIE, RETURN, BadToken
    from gateway.response.cookies.reader import open_token

    found: CookieReference | None = None
    try:
        token = open_token(ring, data, now_ms, purpose)
    except CookieReference as reference:
        found, token = reference, reference.cookie
    if purpose != RETURN:
        yield _line("kind", "response-address cookie" if purpose == COOKIE else "rewritten reply address")
        yield from _form(data, 2)
    description = describe(token)
    if found is not None:
        whole, place = _resolve(policy, ring, found, now_ms)
        yield _line("kept", place)
        description = describe(whole) if whole is not None else {name: description[name] for name in _OF_A_REFERENCE}
    for name, value in description.items():
        yield _line(name, value if value.isprintable() else repr(value))
    if token.scope not in policy.model.scopes:
        raise BadToken("its scope is not in this policy")
    if used_at is not None and token.link_target != used_at:
        raise BadToken("wrong link target")
    check_expiry(token, now_ms - ring.skew_ms)
    yield _line("result", _VALID)


def _resolve(policy: CompiledPolicy, ring: KeyRing, found: CookieReference, now_ms: int) -> tuple[Cookie | None, str]:
    """The whole cookie of a reference, None if it cannot be read from here; and where it is stored."""
    from gateway.response.cookies.cookie import refusal
    from gateway.response.cookies.cookie_store import CookieNotLoaded, CookieStore
    from gateway.state.inspect import read_value

    store = CookieStore(ring)
    try:
        return store.resolve(found, now_ms, refusal), ""
    except CookieNotLoaded as missing:
        value, place = read_value(policy.model.gateway.state, missing.key)
        if value is None:
            return None, place
        missing.load(value, now_ms)
        return store.resolve(found, now_ms, refusal), place


def _id(policy: CompiledPolicy, ring: KeyRing, data: bytes, now_ms: int) -> Iterator[str]:
    from gateway.amqp.codec.codec import decode_all
    from gateway.errors import AmqpError
    from gateway.response.cookies.keys import RETURN, BadToken
    from gateway.response.correlation_ids import open_return_id
    from gateway.response.message_id import open_id

    try:
        (scope, encoded), cookie_token = open_id(ring, data, now_ms), b""
    except BadToken:
        cookie_token, encoded = open_return_id(ring, data, now_ms)
        yield _line("kind", "rewritten message-id that brings its response home")
    else:
        yield _line("kind", "rewritten message-id")
        yield _line("scope", scope)
    yield from _form(data, 1)
    try:
        original = repr(decode_all(encoded))
    except AmqpError:  # not decodable: show the bytes
        original = encoded.hex()
    yield _line("original id", original)
    if cookie_token:
        yield from _token(policy, ring, cookie_token, now_ms, RETURN, None)
    else:
        yield _line("result", _VALID)


def _form(data: bytes, key_at: int) -> Iterator[str]:
    """The protection and the key of a verified token; a signed one has the key id at `key_at`."""
    sealed = data[0] != _SIGNED
    at = 1 if sealed else key_at
    yield _line("form", "sealed" if sealed else "signed")
    yield _line("key", data[at + 1 : at + 1 + data[at]].decode("ascii", "replace"))


def _bytes(text: str) -> bytes:
    """Hex, or base64 in either alphabet, padded or not."""
    from gateway.response.cookies.base64url import from_url

    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    return from_url(text.rstrip("=").replace("+", "-").replace("/", "_").encode("ascii", "replace"))


def _line(name: str, value: str) -> str:
    return f"{name:14} {value}"
