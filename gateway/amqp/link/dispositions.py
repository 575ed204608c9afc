"""Converts outcomes between our classes and proton's deliveries (AMQP 1.0 part 3, 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.codec.codec import Described, Symbol, Ulong, decode_all, encode
from gateway.amqp.codec.decoder import decode, malformed
from gateway.amqp.link.attach_info import Disposition, read_outcome
from gateway.amqp.link.outcomes import (
    ACCEPTED,
    FAILED,
    RELEASED,
    SETTLED,
    Declared,
    Modified,
    Outcome,
    Provisional,
    Rejected,
)
from gateway.amqp.proton import proton_data
from gateway.amqp.proton.handles import ProtonDelivery
from gateway.errors import AmqpError, told

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import SendContext
    from gateway.amqp.link.port import StatedLink

_ERROR: Final = 0x1D
_DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
"""The state of a delivery in a transaction (part 4, 4.5.6)."""
_AROUND: Final = 80
"""Bytes of a disposition around its state, or of a detach around its error, and some of its own, at most."""
_LONG: Final = 200
"""Bytes of annotations that proton may decode."""
_ACCEPTED: Final = lib.PN_ACCEPTED
_RELEASED: Final = lib.PN_RELEASED
_REJECTED: Final = lib.PN_REJECTED
_MODIFIED: Final = lib.PN_MODIFIED


def fitting(outcome: Outcome, scope: str, largest: int) -> Outcome:
    """The outcome for a peer in `scope` whose frames have at most so many bytes (0: any number).

    A disposition cannot be split, and what a receiver says must not end the connection of the sender: without the
    annotations, or with the beginning of the text.
    """
    room = largest - _AROUND
    if not largest or not isinstance(outcome, (Modified, Rejected)):
        return outcome
    if isinstance(outcome, Modified):
        fits = len(outcome.annotations_for(scope) or b"") <= room
        return outcome if fits else Modified(outcome.failed, outcome.undeliverable, None, outcome.scope)
    short = fitting_error(error := told(outcome.error, scope), largest)
    return outcome if short is error else Rejected(short)


def fitting_error(error: AmqpError | None, largest: int) -> AmqpError | None:
    """The error of a disposition or detach for a peer whose frames have at most so many bytes (0: any number)."""
    room = largest - _AROUND
    if error is None or not largest or _size(error) <= room:
        return error
    condition = error.condition[: room // 2]
    text = error.description.encode()[: room - len(condition) - _AROUND].decode(errors="ignore")
    return AmqpError(condition, text, fault=error.fault, scope=error.scope)


def _size(error: AmqpError) -> int:
    """Bytes of an error on the wire, at most."""
    if not error.info:
        return len(error.condition) + 4 * len(error.description)
    return len(_encoded(error))


class _LastError:
    """The error with an info that was encoded last: one disposition may reject very many messages with it."""

    names = "", ""
    info: Mapping[str, object] = MappingProxyType({})
    raw = b""


def _encoded(error: AmqpError) -> bytes:
    """An error with an info; copies of one error have the same objects in it."""
    last, names, info = _LastError, (error.condition, error.description), error.info
    same = last.names == names and last.info.keys() == info.keys()
    if not same or any(last.info[key] is not value for key, value in info.items()):
        last.names, last.info, last.raw = names, dict(info), encode(_error(error))
    return last.raw


def long_state(outcome: Outcome, scope: str) -> bytes | None:
    """A modified outcome with long annotations, or a rejected one with a long error, encoded; None: any other outcome.

    proton would decode it for each delivery, into up to seventy times its size, and keep the memory for the next one.
    """
    if isinstance(outcome, Rejected):
        error = told(outcome.error, scope)
        if error is None or _size(error) <= _LONG or not error.info:
            return None
        raw = _encoded(error)
        return b"\x00\x53\x25\xd0" + (len(raw) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + raw
    annotations = outcome.annotations_for(scope) if isinstance(outcome, Modified) else None
    if annotations is None or len(annotations) <= _LONG or not isinstance(outcome, Modified):
        return None
    items = encode(outcome.failed) + encode(outcome.undeliverable) + annotations
    return b"\x00\x53\x27\xd0" + (len(items) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x03" + items


def write(delivery: ProtonDelivery, outcome: Outcome, scope: str) -> None:
    """Set the local state of a delivery of a peer in `scope`, except accepted; `SETTLED` sets none."""
    if outcome is RELEASED:
        lib.pn_delivery_update(delivery, _RELEASED)
    elif isinstance(outcome, Rejected):
        condition = lib.pn_disposition_condition(lib.pn_delivery_local(delivery))
        proton_data.write_condition(condition, told(outcome.error, scope))
        lib.pn_delivery_update(delivery, _REJECTED)
    elif isinstance(outcome, Modified):
        local = lib.pn_delivery_local(delivery)
        lib.pn_disposition_set_failed(local, outcome.failed)
        lib.pn_disposition_set_undeliverable(local, outcome.undeliverable)
        if annotations := outcome.annotations_for(scope):
            proton_data.write_bytes(lib.pn_disposition_annotations(local), annotations)
        lib.pn_delivery_update(delivery, _MODIFIED)
    elif isinstance(outcome, Declared):
        proton_data.write(lib.pn_disposition_data(lib.pn_delivery_local(delivery)), [outcome.txn_id])
        lib.pn_delivery_update(delivery, _DECLARED)
    elif isinstance(outcome, Provisional):
        fields = provisional(outcome, scope)
        proton_data.write_raw(lib.pn_disposition_data(lib.pn_delivery_local(delivery)), fields)
        lib.pn_delivery_update(delivery, TRANSACTIONAL)


def provisional(outcome: Provisional, scope: str) -> bytes:
    """The fields of a transactional-state for a peer in `scope`, encoded (4.5.6)."""
    raw = outcome.raw or encode(_transactional(outcome, scope))
    if outcome.outcome is ACCEPTED:
        outcome.raw = raw
    return raw


def state(fields: bytes) -> bytes:
    """A transactional-state with these encoded fields."""
    return b"\x00\x53" + bytes((TRANSACTIONAL,)) + fields


def write_any(delivery: ProtonDelivery, outcome: Outcome, scope: str) -> None:
    """`write`, also for accepted."""
    if outcome is ACCEPTED:
        lib.pn_delivery_update(delivery, _ACCEPTED)
    else:
        write(delivery, outcome, scope)


def described(outcome: Outcome, scope: str) -> Described:
    """An outcome as a value on the wire, for a peer in `scope` (3.4)."""
    if isinstance(outcome, Rejected):
        error = told(outcome.error, scope)
        return Described(Ulong(_REJECTED), [] if error is None else [_error(error)])
    if isinstance(outcome, Modified):
        annotations = outcome.annotations_for(scope)
        fields = [outcome.failed, outcome.undeliverable, decode(annotations)[0] if annotations else None]
        return Described(Ulong(_MODIFIED), fields)
    return Described(Ulong(_RELEASED if outcome is RELEASED else _ACCEPTED), [])


def _transactional(state: Provisional, scope: str) -> list[object]:
    """The fields of a transactional-state; that of a transfer has no outcome (part 4, 4.5.6)."""
    return [state.txn_id] if state.outcome is SETTLED else [state.txn_id, described(state.outcome, scope)]


def _error(error: AmqpError) -> Described:
    info = {Symbol(key): value for key, value in error.info.items()}
    text = error.description.replace("\0", proton_data.NUL_SHOWN)  # peers with proton read no further than a NUL, too
    return Described(Ulong(_ERROR), [Symbol(error.condition), text, info or None])


def read_transactional(
    delivery: ProtonDelivery, stated: Disposition | None = None
) -> tuple[bytes, Outcome] | None:
    """The transaction and outcome of a peer's transfer or disposition (4.5.6); `stated`: see `read`.

    None: it has another state, or none since the last one was forgotten. Raises AmqpError (DECODE_ERROR) for a
    transactional-state without a transaction.
    """
    if lib.pn_delivery_remote_state(delivery) != TRANSACTIONAL:
        return None
    if stated is not None and stated.txn_id is not None:
        return stated.txn_id, stated.outcome_for(None)
    fields = proton_data.read_bytes(lib.pn_disposition_data(lib.pn_delivery_remote(delivery)))
    return transactional(fields) if fields else None


def forget_transactional(delivery: ProtonDelivery) -> None:
    """Forget the peer's state after a rollback: proton shows the last one again when the peer settles without any."""
    if lib.pn_delivery_remote_state(delivery) == TRANSACTIONAL:
        lib.pn_data_clear(lib.pn_disposition_data(lib.pn_delivery_remote(delivery)))


class _LastState:
    """The transactional-state that was read last: many messages of a transaction come with the same."""

    raw = b""
    value: tuple[bytes, Outcome] = b"", SETTLED


def transactional(raw: bytes) -> tuple[bytes, Outcome]:
    """The transaction and outcome of the encoded fields of a transactional-state (4.5.6).

    Raises AmqpError (DECODE_ERROR) if they have no transaction.
    """
    if raw and raw == _LastState.raw:
        return _LastState.value
    fields = decode_all(raw) if raw else None
    if not isinstance(fields, list) or not fields or not isinstance(fields[0], bytes):
        raise malformed("a transactional-state has a binary txn-id")
    found = fields[0], read_outcome(fields[1] if len(fields) > 1 else None)
    if found[1] is SETTLED or found[1] is ACCEPTED:  # others have errors of their own
        _LastState.raw, _LastState.value = raw, found
    return found


def _read_declared(delivery: ProtonDelivery) -> Outcome:
    """The id of a transaction that the peer has declared (part 4, 4.5.5); `FAILED` if it is no coordinator's."""
    kind = lib.pn_terminus_get_type(lib.pn_link_target(lib.pn_delivery_link(delivery)))
    fields = proton_data.read(lib.pn_disposition_data(lib.pn_delivery_remote(delivery)))
    if kind == lib.PN_COORDINATOR and isinstance(fields, list) and fields and isinstance(fields[0], bytes):
        return Declared(fields[0])
    return FAILED


def read(
    delivery: ProtonDelivery, state: int, scope: str | None = None, stated: Disposition | None = None
) -> Outcome:
    """The outcome of a peer in `scope`; `FAILED` for a state that is no outcome (3.4), such as `received`.

    Such a state does not say whether the message was processed. `stated`: what the disposition says, if it was read
    from its frame.
    """
    if state == _RELEASED:
        return RELEASED
    if state == _DECLARED:
        return _read_declared(delivery)
    if stated is not None and stated.txn_id is None and isinstance(stated.outcome, (Rejected, Modified)):
        return stated.outcome_for(scope)
    remote = lib.pn_delivery_remote(delivery)
    if state == _REJECTED:
        return Rejected(proton_data.read_condition(lib.pn_disposition_condition(remote), scope))
    if state == _MODIFIED:
        return Modified(
            bool(lib.pn_disposition_is_failed(remote)),
            bool(lib.pn_disposition_is_undeliverable(remote)),
            proton_data.read_bytes(lib.pn_disposition_annotations(remote)) or None,
            scope,
        )
    return FAILED if state else SETTLED


def held_bytes(outcome: Outcome) -> int:
    """Bytes that the peer has said with an outcome besides its name."""
    if isinstance(outcome, Modified):
        return len(outcome.annotations or b"")
    return 0 if not isinstance(outcome, Rejected) or outcome.error is None else _size(outcome.error)


def bulky(outcome: Outcome) -> bool:
    """Whether a message with this outcome in a transaction is settled at once, though its receiver has not settled it.

    proton keeps what a peer says of a message until the message is settled, and, decoded, up to seventy times its size.
    """
    if isinstance(outcome, Rejected) and outcome.error is not None:
        return bool(outcome.error.info) or held_bytes(outcome) > _LONG
    return isinstance(outcome, Modified) and outcome.annotations is not None


class SettledRetirement:
    """A message that was settled in a transaction (`transactions.Retirement`)."""

    __slots__ = ("_given", "_handler", "_link", "_number", "_said", "_size", "_undone", "context", "outcome")
    settled = True

    def __init__(
        self, link: StatedLink, context: SendContext, outcome: Outcome, undone: Outcome = FAILED, *,
        number: int = 0, size: int = 0,
    ) -> None:  # fmt: skip
        """`undone`: its outcome after a rollback; its receiver knows nothing of it any more.

        `number`: 0 for a message that was sent settled. `size`: bytes that were unsettled until now.
        """
        self._link: Final = link
        self._handler: Final = link.handler  # which the link drops when it ends
        self._number: Final = number
        self.context: Final = context
        self.outcome: Final = outcome
        self._undone: Final = undone
        self._size: Final = size
        self._given = False
        self._said = held_bytes(outcome)
        if self._said:
            link.keep(self._said)

    def _forget(self) -> None:
        """Account no more for what the peer has said of the message: its transaction has ended."""
        said, self._said = self._said, 0
        if said:
            self._link.keep(-said)

    @property
    def attached(self) -> bool:
        """See `Retirement`."""
        return self._link.open

    open = attached

    @property
    def message(self) -> tuple[object, int]:
        """See `Retirement`."""
        return self._link, self._number

    def replace(self) -> None:
        """A settled message gets no other outcome."""

    def hand_over(self) -> SendContext:
        """The message's context, for a resource that gives the outcome itself."""
        self._given = True
        return self.context

    def hold(self, waits: bool) -> None:
        """See `Retirement`: nothing else accounts for what is settled."""
        self._link.keep(self._size if waits else -self._size)

    def commit(self) -> None:
        self._forget()
        if not self._given:
            self._handler.on_outcome(self.context, self.outcome)

    def roll_back(self) -> None:
        """The message was delivered, or is available again if it was acquired in the transaction, too."""
        self._forget()
        if not self._given:
            self._handler.on_outcome(self.context, self._undone)


class UnsettledRetirement:
    """A message that gets its outcome, and is settled, with a transaction (`transactions.Retirement`)."""

    __slots__ = ("_delivery", "_link", "_number", "_replaced", "outcome")
    settled = False

    def __init__(self, link: StatedLink, number: int, delivery: ProtonDelivery, outcome: Outcome) -> None:
        self._link: Final = link
        self._number: Final = number
        self._delivery: Final = delivery
        self._replaced = False
        self.outcome: Final = outcome

    @property
    def attached(self) -> bool:
        """See `Retirement`."""
        return self._link.open

    @property
    def open(self) -> bool:
        """Whether the message is still unsettled, unless another outcome has taken the place of this one."""
        return self._link.open and (self._replaced or self._number in self._link.unsettled)

    @property
    def message(self) -> tuple[object, int]:
        """See `Retirement`."""
        return self._link, self._number

    def replace(self) -> None:
        """See `Retirement`."""
        self._replaced = True

    @property
    def context(self) -> SendContext:
        """The node's object for the message."""
        return None if self._replaced else self._link.unsettled.get(self._number)

    def hand_over(self) -> SendContext:
        """The message's context: it is settled with the transaction all the same."""
        return self.context

    def hold(self, waits: bool) -> None:
        """See `Retirement`."""

    def commit(self) -> None:
        if not self._replaced:
            self._link.settle_sent(self._number, self._delivery, self.outcome)

    def roll_back(self) -> None:
        """The message has no outcome, as before."""
        if self.open and not self._replaced:
            forget_transactional(self._delivery)
