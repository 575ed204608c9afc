"""Properties of the scope boundary: nothing forged passes, nothing genuine is lost, bytes stay bytes."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Symbol, Ulong, encode
from gateway.amqp.message import _sections
from gateway.amqp.message.sections import (
    DATA,
    DELIVERY_ANNOTATIONS,
    PROPERTIES,
    Properties,
    delivery_annotations,
    property_field,
    replace_properties,
    section,
    walk,
)
from gateway.errors import NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.annotate import Annotator, LinkTarget
from gateway.response.cookies.base64url import from_url, to_url
from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.keys import BadToken, KeyRing, SigningSecret
from gateway.response.cookies.maker import CookieMaker, seal
from gateway.response.cookies.reader import open_cookie
from gateway.response.correlation_ids import CorrelationRewriter, open_return_id
from gateway.response.fields import NULL, Fields, _assemble, assemble, leading_fields
from gateway.response.message_id import ScopeIds, id_token, open_id
from gateway.response.rewrite import Rewriter
from tests.support.amqp.strategies import result_or_condition
from tests.support.plugins.examples import examples

NOW = 1_700_000_000_000
RING = KeyRing("2026-11", {"2026-11": SigningSecret(b"k" * 32)})
ROTATED = KeyRing("2026-12", {"2026-12": SigningSecret(b"n" * 32), "2026-11": SigningSecret(b"k" * 32, NOW)})
T = "$responses"

texts = st.text(max_size=40)
cookies = st.builds(
    Cookie,
    scope=texts,
    link_target=texts,
    address=st.none() | texts,
    expiry_ms=st.integers(NOW, 2**47),
    inner_cookie=st.none() | st.binary(max_size=400),
    inner_target=st.none() | texts,
    uses=st.none() | st.builds(Uses, st.integers(0, 65_535), st.binary(min_size=12, max_size=12)),
)
ids = st.integers(0, 2**64 - 1).map(Ulong) | st.uuids() | st.binary(max_size=300) | st.text(max_size=300)
addresses = st.text(max_size=300)
annotation_maps = st.dictionaries(
    st.sampled_from(["x-opt-a", "x-opt-b", "response", "cookie"]).map(Symbol),
    st.binary(max_size=20),
    max_size=3,
)


maybe_addresses = st.none() | addresses
expiries = st.integers(0, 2**47)


@st.composite
def messages(draw: st.DrawFn, reply_to: st.SearchStrategy[str | None] = maybe_addresses) -> bytes:
    """A message with up to eight properties, with and without delivery annotations."""
    properties: list[Any] = [draw(st.none() | ids), None, draw(st.none() | addresses), "s"]
    properties += [draw(reply_to), draw(st.none() | ids), None, None][: draw(st.integers(1, 4))]
    da = draw(st.none() | annotation_maps)
    head = section(DELIVERY_ANNOTATIONS, da) if da else b""
    return head + section(PROPERTIES, properties) + section(DATA, draw(st.binary(max_size=50)))


def with_annotation(data: bytes, name: str, value: object) -> bytes:
    layout = walk(data)
    da = {**delivery_annotations(data, layout), Symbol(name): value}
    return data[: layout.da] + section(DELIVERY_ANNOTATIONS, da) + data[layout.ma :]


def field(data: bytes, index: int) -> bytes | None:
    return property_field(data, walk(data), index)


def blank(data: bytes, *indexes: int) -> bytes:
    """With these properties null and the list at its full length, to compare all others."""
    return replace_properties(data, walk(data), {12: b"\x40", **dict.fromkeys(indexes, b"\x40")})


@given(texts | st.integers(-9, 9).map(lambda more: "a" * (CookieMaker(RING, "edge", T)._room + more)), expiries)
def test_a_cookie_of_an_address_alone_is_that_of_the_general_form(address: str, expiry_ms: int) -> None:
    maker, cookie = CookieMaker(RING, "edge", T), Cookie("edge", T, address, expiry_ms)
    assert result_or_condition(maker.make, cookie) == result_or_condition(maker._make, cookie)


@given(cookies)
def test_cookies_round_trip_also_after_rotation(cookie: Cookie) -> None:
    data = seal(RING, cookie)
    assert open_cookie(RING, data, NOW) == cookie
    assert open_cookie(ROTATED, data, NOW) == cookie


@pytest.mark.row("RA-2.4-4")
@settings(max_examples=examples(20))
@given(cookies)
def test_no_single_bit_flip_and_no_truncation_is_accepted(cookie: Cookie) -> None:
    data = seal(RING, cookie)
    bad = [data[:n] for n in range(len(data))] + [data + b"\0"]
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        bad.append(bytes(changed))
    for token in bad:
        with pytest.raises(AmqpError) as caught:
            open_cookie(RING, token, NOW)
        assert caught.value.condition == UNAUTHORIZED_ACCESS
        assert isinstance(caught.value.__cause__, BadToken)


@pytest.mark.row("RA-2.4-4")
@given(st.binary(max_size=200), st.booleans())
def test_bytes_from_nowhere_give_the_one_error(noise: bytes, plausible: bool) -> None:
    token = b"\x01\x01\x072026-11" + noise if plausible else noise
    response = section(DELIVERY_ANNOTATIONS, {Symbol("address-cookie"): token})
    with pytest.raises(AmqpError) as caught:
        LinkTarget(RING, T, ("edge",)).restore(response, NOW)
    assert caught.value.condition == UNAUTHORIZED_ACCESS


@given(messages(), annotation_maps)
def test_annotate_and_restore(request: bytes, da: dict[Any, Any]) -> None:
    annotator = Annotator(RING, "edge", T, 1000)
    annotated = annotator.annotate(request, NOW)
    before, after = walk(request), walk(annotated)
    assert annotated[after.ma :] == request[before.ma :]
    assert delivery_annotations(request, before).items() <= delivery_annotations(annotated, after).items()

    cookie = delivery_annotations(annotated, after)["response-address-cookie"]
    response = (section(DELIVERY_ANNOTATIONS, da) if da else b"") + section(DATA, b"x")
    sent = with_annotation(response, "address-cookie", cookie)
    reply_to = Properties(request, before).reply_to
    if reply_to is None:
        with pytest.raises(AmqpError, match=NOT_FOUND):
            annotator.restore(sent, NOW)
    else:
        restored = annotator.restore(sent, NOW)
        assert (restored.scope, restored.address, restored.data) == ("edge", reply_to, response)


@given(messages(), messages())
def test_what_is_remembered_of_others_changes_nothing(request: bytes, answer: bytes) -> None:
    """However often a request is asked and answered: the same bytes, sent on or refused in the same way."""
    annotator, other = (Annotator(RING, "edge", T, 1000) for _ in range(2))
    annotated = {annotator.annotate(request, NOW) for _ in range(3)} | {other.annotate(request, NOW)}
    assert len(annotated) == 1
    asked = annotated.pop()
    cookie = delivery_annotations(asked, walk(asked))["response-address-cookie"]
    sent = with_annotation(answer, "address-cookie", cookie)
    first, *again = [result_or_condition(annotator.restore, sent, NOW) for _ in range(3)]
    assert all(each == first for each in again)
    late = NOW + 5000
    assert result_or_condition(annotator.restore, sent, late) == result_or_condition(other.restore, sent, late)


@given(messages(addresses), messages())
def test_rewrite_and_undo(request: bytes, response: bytes) -> None:
    rewriter = Rewriter(RING, "edge", "$r", 1000)
    asked = rewriter.rewrite(request, NOW)
    if (reply_to := Properties(request, walk(request)).reply_to) is None:
        assert asked == request
        return
    assert blank(asked, 0, 4) == blank(request, 0, 4)

    view = Properties(asked, walk(asked))
    assert view.reply_to is not None
    response = replace_properties(response, walk(response), {5: encode(view.message_id)})
    home = Rewriter(ROTATED, "edge", "$r", 1000).undo(view.reply_to[3:], response, NOW)
    assert (home.address, field(home.data, 2)) == (reply_to, encode(reply_to))
    assert field(home.data, 5) == field(request, 0)
    assert blank(home.data, 2, 5) == blank(response, 2, 5)


@given(st.lists(messages(addresses), min_size=1, max_size=3))
def test_remembered_reply_tokens_are_those_that_would_be_made(requests: list[bytes]) -> None:
    """Whatever was rewritten before: in an address as in an id, a reply-to becomes the same token."""
    rewriter, carrier = Rewriter(RING, "edge", "$r", 1000), CorrelationRewriter(RING, "edge", "core", T, 1000)
    for request in [*requests, *requests]:
        alone = Rewriter(RING, "edge", "$r", 1000).rewrite(request, NOW)
        assert field(rewriter.rewrite(request, NOW), 4) == field(alone, 4)
        ways = carrier, CorrelationRewriter(RING, "edge", "core", T, 1000)
        sent = [result_or_condition(partial(each.rewrite, reply_to=encode("q")), request, NOW) for each in ways]
        again, fresh = (open_token_of(each) if isinstance(each, bytes) else each for each in sent)
        assert again == fresh


def open_token_of(request: bytes) -> bytes:
    """What brings the response of a request home, in its message-id."""
    return open_return_id(RING, id_token(field(request, 0) or NULL), NOW)[0]


@given(messages(addresses))
def test_a_request_sent_back_comes_home_as_it_was(request: bytes) -> None:
    rewriter = Rewriter(RING, "edge", "$r", 1000, destination="core")
    asked = rewriter.rewrite(request, NOW)
    if asked != request:
        reply_to = Properties(asked, walk(asked)).reply_to
        assert reply_to is not None
        assert blank(rewriter.undo(reply_to[3:], asked, NOW).data, 2, 4) == blank(request, 2, 4)


@pytest.mark.row("RA-2.5-9")
def test_no_changed_letter_and_no_truncation_of_an_address_is_accepted() -> None:
    rewriter = Rewriter(RING, "edge", "$r", 1000)
    asked = rewriter.rewrite(section(PROPERTIES, ["m", None, None, None, "replies/1"]), NOW)
    reply_to = Properties(asked, walk(asked)).reply_to
    assert reply_to is not None
    token = reply_to[3:]
    assert rewriter.resolve(token, NOW).address == "replies/1"
    bad = [token[:n] for n in range(len(token))] + [token + "A", token + "="]
    for at, letter in enumerate(token):
        bad += [token[:at] + chr(ord(letter) ^ 1 << bit) + token[at + 1 :] for bit in range(8)]
    for name in bad:
        with pytest.raises(AmqpError, match=NOT_FOUND):
            rewriter.resolve(name, NOW)


@given(ids | st.none(), st.text(max_size=30), st.randoms(use_true_random=False))
def test_ids_round_trip_and_a_flipped_bit_makes_a_foreign_id(value: Any, scope: str, random: Any) -> None:
    minted = ScopeIds(RING, scope, lambda n: b"\xff" * n)
    name = minted.mint(encode(value))
    for ring in (RING, ROTATED):
        assert ScopeIds(ring, scope, bytes).original(name, NOW) == encode(value)
        assert ScopeIds(ring, scope + "x", bytes).original(name, NOW) is None
    for at in (random.randrange(len(name)), 1):  # there is the size
        changed = bytearray(name)
        changed[at] ^= 1 << random.randrange(8)
        assert minted.original(bytes(changed), NOW) is None


@given(st.binary(max_size=80))
def test_bytes_from_nowhere_are_no_id(noise: bytes) -> None:
    with pytest.raises(BadToken):
        open_id(RING, noise, NOW)
    with pytest.raises(BadToken):
        open_id(RING, b"\x01\x072026-11" + noise, NOW)


@given(st.binary(max_size=200))
def test_base64url_has_one_spelling(data: bytes) -> None:
    assert from_url(to_url(data)) == data


tokens = st.binary(max_size=200) | st.just(b"long" * 9999)


@given(st.binary(max_size=9), tokens, st.binary(max_size=32), st.integers(0, 32))
def test_the_string_of_a_token_is_that_of_the_general_form(mark: bytes, token: bytes, mac: bytes, size: int) -> None:
    size = min(size, len(mac))
    text = mark + to_url(token + mac[:size])
    head = b"\xa1%c" % len(text) if len(text) < 256 else b"\xb1" + len(text).to_bytes(4, "big")
    assert _sections.encode_token_string(mark, token, mac, size) == head + text


@given(messages(), st.dictionaries(st.sampled_from([0, 2, 4, 5]), ids, max_size=4))
def test_the_quick_way_to_replace_properties_is_the_general_one(data: bytes, new: dict[int, Any]) -> None:
    layout = walk(data)
    fields: Fields = leading_fields(data, layout)
    encoded = {index: encode(value) for index, value in new.items()}
    for index, value in encoded.items():
        fields[0][index] = value
    annotations = data[layout.da : layout.ma]
    assert assemble(data, layout, annotations, fields) == replace_properties(data, layout, encoded)


parts = st.sampled_from([NULL, NULL + b"no field", encode("x"), encode(7), encode("y" * 250), encode("z" * 70_000)])


@given(
    messages(),
    st.binary(max_size=9),
    st.lists(parts, min_size=6, max_size=6),
    st.binary(max_size=9) | st.just(b"\x40" * 300),
    st.integers(0, 400),
)
def test_a_message_is_put_together_in_c_as_in_general(
    data: bytes, annotations: bytes, leading: list[bytes], rest: bytes, count: int
) -> None:
    layout = walk(data)
    made = _sections.assemble(data, layout, annotations, (leading, rest, count))
    if count < 256 or sum(map(len, leading)) + len(rest) >= 255:  # else there are more fields than bytes for them
        assert made == _assemble(data, layout, annotations, (leading, rest, count))
    else:
        assert made is ...


def test_uuid_ids_are_kept_as_uuids() -> None:
    minted = ScopeIds(RING, "edge", bytes)
    assert minted.original(minted.mint(encode(uuid.UUID(int=1))), NOW) == b"\x98" + uuid.UUID(int=1).bytes
