"""Events as messages of each protocol, by the protocol bindings of CloudEvents 1.0, a protocol a module. Pure."""
