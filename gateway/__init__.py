"""ScopeGate's gateway: AMQP 1.0 wire, nodes, scopes; see docs/design.md for the house."""

__version__ = "0.1.0"
