"""Converts outcomes between our classes and proton's deliveries (AMQP 1.0 part 3, 3.4)."""

from __future__ import annotations

from typing import Final

from cproton_ffi import lib

from gateway.amqp.engine import proton_data
from gateway.amqp.engine.handles import ProtonDelivery
from gateway.amqp.link.outcomes import FAILED, RELEASED, SETTLED, Modified, Outcome, Rejected
from gateway.errors import told

_RELEASED: Final = lib.PN_RELEASED
_REJECTED: Final = lib.PN_REJECTED
_MODIFIED: Final = lib.PN_MODIFIED


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


def read(delivery: ProtonDelivery, state: int, scope: str | None = None, said: str | None = None) -> Outcome:
    """The outcome of a peer in `scope`; `FAILED` for a state that is no outcome (3.4), such as `received`.

    Such a state does not say whether the message was processed. `said` is the whole text of an error, of which proton
    shows only the part before a NUL.
    """
    if state == _RELEASED:
        return RELEASED
    remote = lib.pn_delivery_remote(delivery)
    if state == _REJECTED:
        return Rejected(proton_data.read_condition(lib.pn_disposition_condition(remote), scope, said))
    if state == _MODIFIED:
        return Modified(
            bool(lib.pn_disposition_is_failed(remote)),
            bool(lib.pn_disposition_is_undeliverable(remote)),
            proton_data.read_bytes(lib.pn_disposition_annotations(remote)) or None,
            scope,
        )
    return FAILED if state else SETTLED
