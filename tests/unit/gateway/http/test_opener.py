"""Which hosts a command asks itself, and which through the proxy of its environment."""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest

from gateway.http.opener import opener

PROXIES = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}


THROUGH = dict.fromkeys(("127.0.0.1", "127.8.0.1", "::1", "localhost"), False)
THROUGH |= dict.fromkeys(("localhost.example", "10.0.0.1", ""), True)


@pytest.mark.parametrize(("host", "through"), THROUGH.items())
def test_only_other_machines_are_asked_through_a_proxy(host: str, through: bool) -> None:
    with patch.dict(os.environ, PROXIES):
        handlers = opener(host).handlers
    assert any(hasattr(handler, "proxies") for handler in handlers) is through
