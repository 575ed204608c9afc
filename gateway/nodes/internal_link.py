"""A link of which a node sees one end and no peer has the other: what such links share.

Messages pulled from a queue, the two ends of a bridge, and the destinations of a link whose messages go to many nodes
are links to the nodes they lead to (see `gateway.amqp.link.link.Link` for what a node uses of one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.message.hop import ROUTING
from gateway.errors import INTERNAL_ERROR, AmqpError, Fault
from gateway.principal import Requester

if TYPE_CHECKING:
    from gateway.filters.parse.filter_set import Rules


class NothingUnsettled:
    """For a link of which another one keeps what is unsettled."""

    contexts: Final = ()

    def __len__(self) -> int:
        return 0


class InternalLink:
    """Taken or refused by its node, subject to the policy, and ended once."""

    fence: int = 0
    offset_group: str | None = None
    draining = presettled = False
    filter_rules: Rules | None = None

    def __init__(self, context: Any, requester: Requester) -> None:
        self.context = context
        self.requester = requester
        """Whose messages it carries."""
        self.decision: Any = None
        self.flow: Any = None
        """What the journal counts of it."""
        self.leaving: Any = None
        """How requests in a topic become what its reader may get (`nodes.leaving.Leaving`)."""
        self.handler: Any = None
        self.open = False
        self.gone = False
        self.max_message_size = 0
        self.understands = ROUTING
        """The names of the delivery annotations that the node is to get."""

    def taken(self, handler: Any) -> bool:
        """The node takes the link; False: it answers too late, and has been told so."""
        if self.gone:
            handler.on_detach(None)
            return False
        self.handler = handler
        self.open = True
        return True

    def tapped(self, handler: Any) -> Any:
        """The node's handler, with what the journal counts around it."""
        return handler if self.flow is None else self.flow.tapped(handler)

    def refuse(self, error: AmqpError) -> None:
        """The node does not take the link."""
        self.end(error)

    def detach(self, error: AmqpError | None = None) -> None:
        """The node ends the link."""
        self.end(error)

    def attempt(self, step: Callable[[], None]) -> None:
        """As `LinkState.attempt`: where the step fails, a bug, this link ends and the error is raised."""
        try:
            step()
        except Exception:
            self.end(AmqpError(INTERNAL_ERROR, "the gateway cannot continue this link", fault=Fault.GATEWAY))
            raise

    def withdraw(self, error: AmqpError) -> None:
        """As `Link.withdraw`; whoever is around it gives what came its outcome."""
        self.end(error)

    def policy_changed(self, verdict: Callable[[Any], AmqpError | None]) -> None:
        """A reload: what the address means may have changed."""
        if (error := verdict(self)) is not None:
            self.end(error)

    def end(self, error: AmqpError | None) -> None:
        """End it, once, whoever wants that."""
        if self.gone:
            return
        self.gone = True
        if self.flow is not None:
            self.flow.left(self)
        was_open, self.open = self.open, False
        self.ended(error, was_open=was_open)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """Tell the node, if it had taken the link, and everybody else who has a part in it."""
        raise NotImplementedError
