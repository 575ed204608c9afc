"""The server's side of AMQP SASL (part 5, 5.3), sans-IO; it starts after the client's SASL header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gateway.amqp.codec.codec import Array, Symbol
from gateway.amqp.codec.types import ValueList
from gateway.amqp.sasl.frames import MAX_FRAME, SASL_HEADER, Code, Kind, SaslMachine, field, frame, outcome
from gateway.amqp.sasl.mechanisms import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    Anonymous,
    Attempt,
    Check,
    External,
    LoginDenied,
    PlainAttempt,
    Scram,
    Success,
)
from gateway.amqp.sasl.verifiers import UserStore

_NO_USERS: Final = UserStore({})


def offered(mechanisms: Sequence[str], *, tls: bool, certificate: bool, plain: bool) -> list[str]:
    """The mechanisms of a listener that are offered on a connection.

    `tls`: it is encrypted; `certificate`: the client has one that names its user; `plain`: passwords may be sent
    without TLS.
    """
    absent = {PLAIN} if not (tls or plain) else set()
    absent |= {EXTERNAL} if not certificate else set()
    return [name for name in mechanisms if name not in absent]


class SaslServer(SaslMachine):
    """One exchange with one client: one attempt, then `done` (with `user`) or `failed`.

    PLAIN is offered only on TLS unless `allow_plain_without_tls`; EXTERNAL only to a client with a
    certificate (`client_subject`).
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        users: UserStore | None,
        *,
        tls: bool,
        client_subject: str | None = None,
        allow_plain_without_tls: bool = False,
        max_frame: int = MAX_FRAME,
    ) -> None:
        super().__init__(max_frame)
        self._users = _NO_USERS if users is None else users
        self._subject = client_subject
        self._attempt: Attempt | None = None
        self._check: Check | None = None
        self.claimed = ""
        certificate = client_subject is not None
        self._offered = offered(mechanisms, tls=tls, certificate=certificate, plain=allow_plain_without_tls)
        self._greet()

    def _greet(self) -> None:
        self._out += SASL_HEADER
        if self._offered:
            # An array even for one mechanism: some clients index the field.
            self._out += frame(Kind.MECHANISMS, Array("symbol", tuple(map(Symbol, self._offered))))
        else:
            self._end(Code.SYS_PERM, "nothing-to-offer")

    def _on_frame(self, kind: Kind, fields: ValueList) -> None:
        if kind is Kind.INIT and self._attempt is None:
            self._on_init(fields)
        elif kind is Kind.RESPONSE and self._attempt is not None:
            self._step(self._attempt, field(fields, 0, bytes, mandatory=True))
        else:
            self._end(Code.SYS_PERM, "out-of-order")

    def _on_init(self, fields: ValueList) -> None:
        # The client must choose one that was offered (5.3.3.2).
        name = field(fields, 0, Symbol, mandatory=True)
        initial = field(fields, 1, bytes)
        field(fields, 2, str)
        if name not in self._offered:
            self._end(Code.AUTH, "mechanism")
            return
        self.mechanism = str(name)
        self._attempt = attempt = self._start(self.mechanism)
        if initial is None and attempt.wants_initial:
            self._out += frame(Kind.CHALLENGE, b"")
        else:
            self._step(attempt, initial or b"")

    def _start(self, mechanism: str) -> Attempt:
        if mechanism == ANONYMOUS:
            return Anonymous()
        if mechanism == EXTERNAL:
            return External(self._subject or "")
        if mechanism == PLAIN:
            return PlainAttempt(self._users)
        return Scram(mechanism, self._users)

    def _step(self, attempt: Attempt, data: bytes) -> None:
        try:
            answer = attempt.step(data)
        except LoginDenied as denied:
            self.claimed = denied.claimed
            self._end(Code.AUTH, denied.reason)
            return
        if isinstance(answer, Check):
            self._check = answer
        elif isinstance(answer, Success):
            self._succeed(answer)
        else:
            self._out += frame(Kind.CHALLENGE, answer)

    @property
    def check(self) -> Callable[[], bool] | None:
        """A password check to run outside the event loop before the exchange continues; then call `checked`."""
        return None if self._check is None else self._check.passes

    def checked(self, passes: bool) -> None:
        """The result of `check`; processes the frames that came meanwhile."""
        check, self._check = self._check, None
        assert check is not None
        if passes:
            self._succeed(Success(check.user))
        else:
            self.claimed = check.claimed
            self._end(Code.AUTH, "credentials")
        self.receive(b"")

    def _succeed(self, success: Success) -> None:
        self.user = success.user
        self.done = True
        self._out += outcome(Code.OK, success.data)

    def _on_malformed(self) -> None:
        self._end(Code.SYS_PERM, "malformed")

    def _end(self, code: Code, reason: str) -> None:
        self._out += outcome(code)
        self._fail(reason)
