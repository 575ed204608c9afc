"""Names that the gate of the admin API accepts in Host."""

from __future__ import annotations

import pytest

from gateway.admin.access.gate import names_us


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "[::1]:9", "localhost:1", "Gate.Example:443"])
def test_an_address_or_a_name_of_ours_is_accepted(host: str) -> None:
    assert names_us(host, ("gate.example",))


@pytest.mark.parametrize("host", ["", "evil.example", "gate.example.evil", "localhost.evil:80", "127.0.0.1.nip.io"])
def test_another_name_is_not(host: str) -> None:
    assert not names_us(host, ("gate.example",))
