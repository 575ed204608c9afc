"""The policy file as typed, frozen values: each section in the module of its key. Pure.

Uses pydantic and `policies.values`.
"""
