"""SASL on both sides: frames, mechanisms, SCRAM verifiers and the users file (part 5, 5.3).

Machines that take and give bytes; only `password_checks` knows the loop, for checks that take long. Uses the codec.
"""
