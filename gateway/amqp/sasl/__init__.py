"""SASL on both sides: frames, mechanisms, SCRAM verifiers and the users file (part 5, 5.3).

The state machines are sans-IO; only `password_checks` uses the event loop, for slow checks. Uses the codec.
"""
