"""The policy file as typed, frozen values: each section in the module of its key. Pure.

Uses pydantic and `policies.values`. These modules have no `from __future__ import annotations`: pydantic would have to
compile each annotation by itself, for a twentieth of `scopegate check`.
"""
