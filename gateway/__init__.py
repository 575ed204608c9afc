"""The gateway: AMQP 1.0 on the wire, nodes, routing, connectors and the process that serves a policy (docs/design.md).

Modules beside the packages are for every room: errors, who acts (`principal`), this process (`instance`), and its one
task supervisor (`tasks`).
"""

from typing import Final

__all__ = ["PRODUCT", "__version__"]

__version__ = "0.2.0"

PRODUCT: Final = {"product": "ScopeGate", "version": __version__}
"""What the open frames of this gateway say in `properties` (AMQP 1.0 part 2, 2.7.1)."""
