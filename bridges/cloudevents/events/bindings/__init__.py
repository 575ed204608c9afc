"""Events as messages by the protocol bindings of CloudEvents 1.0, one protocol per module. Pure."""
