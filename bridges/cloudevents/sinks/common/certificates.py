"""The TLS contexts of sinks, from the files that the policy names; read again after each reload."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.amqp.transport.tls import client_context
from policies.model.scopes.sinks import SinkTls
from policies.values.base import Secret


class SinkCertificates:
    """TLS contexts by entry of the policy: TLS 1.2 or later, with host name checks."""

    def __init__(self, path: Callable[[str], Path], secret: Callable[[Secret], bytes]) -> None:
        """`path` resolves a file name of the policy, and `secret` a secret."""
        self.path: Final = path
        self._secret: Final = secret
        self._contexts: Final[dict[SinkTls | None, ssl.SSLContext]] = {}

    def context(self, tls: SinkTls | None) -> ssl.SSLContext:
        """The context of an entry; raises TlsError if its files are not usable."""
        found = self._contexts.get(tls)
        if found is None:
            found = self._contexts[tls] = self._make(tls)
        return found

    def _make(self, tls: SinkTls | None) -> ssl.SSLContext:
        if tls is None:
            return client_context()
        ca, cert, key = (None if name is None else self.path(name) for name in (tls.ca, tls.cert, tls.key))
        password = None if tls.key_password is None else self._secret(tls.key_password)
        return client_context(ca=ca, cert=cert, key=key, password=password)
