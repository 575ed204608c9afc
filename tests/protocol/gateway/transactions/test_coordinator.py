"""The coordinator: declare and discharge, unknown ids, and what is no request (AMQP 1.0 part 4)."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.transactions.controller import LOCAL, Controller


@pytest.mark.row("CORE-9")
def test_transactions_are_declared_and_discharged(served: Served) -> None:
    controller = Controller(served.peer())
    assert LOCAL in controller.attach.target["capabilities"].items
    first, second = controller.declare(), controller.declare()
    assert first != second
    assert controller.discharge(first).matches("accepted")
    assert controller.discharge(second, fail=True).matches("accepted")


@pytest.mark.row("AT-2.2.2-12")
def test_an_unknown_or_finished_id_is_refused(served: Served) -> None:
    controller = Controller(served.peer())
    done = controller.declare()
    assert controller.discharge(done, fail=False).matches("accepted")
    for txn_id in (done, b"never", b""):
        outcome = controller.discharge(txn_id)
        assert outcome["error"]["condition"] == "amqp:transaction:unknown-id"
