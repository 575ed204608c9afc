"""The client's side of AMQP SASL (part 5, 5.3), sans-IO; it sends and checks the SASL header itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scramp import ScramClient, ScramException

from gateway.amqp.codec.codec import Array, Symbol, Ubyte, malformed
from gateway.amqp.codec.types import ValueList
from gateway.amqp.sasl.frames import MAX_FRAME, SASL_HEADER, Code, Kind, SaslMachine, field, frame
from gateway.amqp.sasl.mechanisms import ANONYMOUS, EXTERNAL, PLAIN, STRONGEST_FIRST

# A server may ask for any number of iterations, and we hash on the event loop: this many take about 0.1 s.
MAX_ROUNDS: Final = 200_000


class SaslClient(SaslMachine):
    """Authenticates with the strongest mechanism that is both configured and offered.

    PLAIN is never used without TLS unless `allow_plain_without_tls`. With SCRAM the server must prove that it knows the
    password, too: an outcome "ok" without proof is a failure.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        user: str | None = None,
        password: str | None = None,
        hostname: str | None = None,
        *,
        tls: bool,
        allow_plain_without_tls: bool = False,
        max_frame: int = MAX_FRAME,
    ) -> None:
        super().__init__(max_frame)
        private = tls or allow_plain_without_tls
        self._wanted = [name for name in mechanisms if private or name != PLAIN]
        self._name = user or ""
        self._password = password or ""
        self._hostname = hostname
        self._header = bytearray()
        self._scram: _Scram | None = None
        self.offered: tuple[str, ...] = ()
        self._out += SASL_HEADER

    def receive(self, data: bytes) -> None:
        """Take bytes of the server; its SASL header comes first."""
        missing = len(SASL_HEADER) - len(self._header)
        if missing:
            self._header += data[:missing]
            data = data[missing:]
            if not SASL_HEADER.startswith(self._header):
                self._fail("protocol-header")
        super().receive(data)

    def _on_frame(self, kind: Kind, fields: ValueList) -> None:
        if kind is Kind.MECHANISMS and not self.mechanism:
            self._choose(fields)
        elif kind is Kind.CHALLENGE and self.mechanism:
            self._answer(field(fields, 0, bytes, mandatory=True))
        elif kind is Kind.OUTCOME:
            self._finish(field(fields, 0, Ubyte, mandatory=True), field(fields, 1, bytes))
        else:
            self._fail("out-of-order")

    def _choose(self, fields: ValueList) -> None:
        value = fields[0] if fields else None
        names = value.items if type(value) is Array else (value,)
        if not all(type(name) is Symbol for name in names):
            raise malformed("sasl-server-mechanisms must consist of symbols")
        self.offered = tuple(map(str, names))
        both = [name for name in STRONGEST_FIRST if name in self._wanted and name in self.offered]
        if not both:
            self._fail("mechanism")
            return
        self.mechanism = both[0]
        try:
            initial = self._initial(self.mechanism)
        except ScramException:
            self._fail("credentials")
            return
        self._out += frame(Kind.INIT, Symbol(self.mechanism), initial, self._hostname)

    def _initial(self, mechanism: str) -> bytes:
        if mechanism in (ANONYMOUS, EXTERNAL):
            return b""
        self.user = self._name
        if mechanism == PLAIN:
            return f"\0{self._name}\0{self._password}".encode()
        self._scram = _Scram(mechanism, self._name, self._password)
        return self._scram.first()

    def _answer(self, challenge: bytes) -> None:
        if self._scram is None:
            reply: bytes | None = self._initial(self.mechanism)
        else:
            reply = self._scram.step(challenge)
        if reply is None:
            self._fail("server-proof")
        else:
            self._out += frame(Kind.RESPONSE, reply)

    def _finish(self, code: int, data: bytes | None) -> None:
        if code != Code.OK:
            self._fail("credentials" if code == Code.AUTH else "server-error")
        elif not self.mechanism:
            self._fail("out-of-order")
        elif self._scram is not None and not self._scram.proven_by(data):
            self._fail("server-proof")
        else:
            self.done = True

    def _on_malformed(self) -> None:
        self._fail("malformed")


class _Scram:
    """The client side of RFC 5802; None means an invalid message of the server."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._client = ScramClient([mechanism], user, password)
        self._asked = False
        self._proven = False

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def step(self, challenge: bytes) -> bytes | None:
        # Some servers send their proof as one more challenge instead of with the outcome.
        if self._asked:
            return b"" if self.proven_by(challenge) else None
        self._asked = True
        try:
            self._client.set_server_first(challenge.decode())
            if int(self._client.iterations) > MAX_ROUNDS:
                return None
            return str(self._client.get_client_final()).encode()
        except (ScramException, UnicodeDecodeError):
            return None

    def proven_by(self, data: bytes | None) -> bool:
        """Whether the server has proved, now or before, that it has the verifier."""
        if self._asked and not self._proven and data:
            try:
                self._client.set_server_final(data.decode())
            except (ScramException, UnicodeDecodeError):
                return False
            self._proven = True
        return self._proven
