"""SASL in front of the engine (part 5, 5.3): both roles, mechanisms, and the users file."""
