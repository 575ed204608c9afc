"""The baseline of the relay cases: the same job with stock `proton.Container` and `proton.Message`.

`python -m tests.bench.load.stock_relay PORT` listens on the loopback interface and forwards messages from a sender to
the receiver attached at the same address. It accepts upstream when downstream has accepted, with a credit of 1000, as a
reader of proton's documentation would write it.
"""

from __future__ import annotations

import sys
from typing import Any

from proton.handlers import MessagingHandler
from proton.reactor import Container

CREDIT = 1000


class StockRelay(MessagingHandler):
    """Pairs one sender with one receiver per address."""

    def __init__(self, port: int) -> None:
        super().__init__(prefetch=CREDIT, auto_accept=False, auto_settle=True)
        self.port = port
        self.outgoing: dict[str, Any] = {}
        self.incoming: dict[str, Any] = {}
        self.waiting: dict[Any, Any] = {}

    def on_start(self, event: Any) -> None:
        event.container.listen(f"127.0.0.1:{self.port}")

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if link.is_sender:
            address = link.remote_source.address
            self.outgoing[address] = link
        else:
            address = link.remote_target.address
            self.incoming[address] = link

    def on_message(self, event: Any) -> None:
        sender = self.outgoing[event.link.remote_target.address]
        self.waiting[sender.send(event.message)] = event.delivery

    def on_accepted(self, event: Any) -> None:
        self.accept(self.waiting.pop(event.delivery))

    def on_link_closing(self, event: Any) -> None:
        self._forget(event.link)

    def on_disconnected(self, event: Any) -> None:
        for link in (*self.outgoing.values(), *self.incoming.values()):
            if link.connection == event.connection:
                self._forget(link)

    def _forget(self, link: Any) -> None:
        for table in (self.outgoing, self.incoming):
            for address in [address for address, held in table.items() if held == link]:
                del table[address]


def main() -> None:
    Container(StockRelay(int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
