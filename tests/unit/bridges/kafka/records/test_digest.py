"""SHA-256 of libcrypto is that of hashlib, and without it hashlib is called."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume import _fetch
from bridges.kafka.records import digest, envelope


@pytest.fixture
def unbound() -> Iterator[None]:
    """Named before `monkeypatch`, it ends after it."""
    _fetch.bind_sha256(0, 0, 0)
    yield
    assert digest.bind() == digest.ADDRESSES


def test_libcrypto_is_found_where_hashlib_has_it() -> None:
    assert digest.bind() == digest.ADDRESSES
    assert (_fetch.sha256(b"") is not None) is (digest.ADDRESSES is not None)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 1000, 100_000])
def test_a_digest_is_that_of_hashlib(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert digest.sha256(data) == hashlib.sha256(data).digest()


def test_without_libcrypto_hashlib_is_called(unbound: None) -> None:
    assert _fetch.sha256(b"x") is None
    assert digest.sha256(b"x") == hashlib.sha256(b"x").digest()


@pytest.mark.parametrize("fault", [AttributeError, OSError])
def test_a_library_without_the_functions_is_not_bound(
    fault: type[Exception], unbound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(path: str) -> None:
        raise fault(path)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not digest.bind()
    assert _fetch.sha256(b"x") is None


def test_functions_that_make_other_digests_are_not_used(unbound: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_SAMPLE", b"another")
    monkeypatch.setattr(hashlib, "sha256", hashlib.sha512)
    assert not digest.bind()
    assert _fetch.sha256(b"x") is None


def test_only_bytes_are_hashed() -> None:
    with pytest.raises(TypeError, match="what is hashed is bytes"):
        _fetch.sha256("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _fetch.bind_sha256("a", "b", "c")  # type: ignore[arg-type]


_CONTENT = st.none() | st.binary(max_size=300)
_HEADERS = st.lists(st.tuples(st.text(max_size=20), _CONTENT), max_size=5)


@given(st.sampled_from([1, 2]), st.binary(max_size=9), st.binary(max_size=300), _CONTENT, _CONTENT, _HEADERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_are_sealed_in_c_as_in_python(
    kind: int,
    prefix: bytes,
    rest: bytes,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    exact = bytes((len(prefix),)) + prefix + rest
    try:
        expected = bytes((kind,)) + envelope._digest(kind, exact, key, value, headers) + exact
    except UnicodeEncodeError:  # half of a pair of surrogates
        assert _fetch.seal(kind, key, value, exact, headers) is None
        return
    assert _fetch.seal(kind, key, value, exact, headers) == (expected if digest.ADDRESSES else None)
    assert envelope.wrap(kind, prefix, rest, key, value, headers) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("1", None, b"", b"", []),
        (1 << 70, None, b"", b"", []),
        (-1, None, b"", b"", []),
        (1, "key", b"", b"", []),
        (1, None, "value", b"", []),
        (1, None, b"", None, []),
        (1, None, b"", b"", ()),
        (1, None, b"", b"", [["a", b""]]),
        (1, None, b"", b"", [("a", b"", b"")]),
        (1, None, b"", b"", [(b"a", b"")]),
        (1, None, b"", b"", [("a", "b")]),
        (1, None, b"", b"", [("\ud800", b"")]),
    ],
)
def test_what_is_no_record_is_left_to_python(arguments: tuple[object, ...]) -> None:
    assert _fetch.seal(*arguments) is None  # type: ignore[arg-type]
