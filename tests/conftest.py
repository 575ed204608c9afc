"""One place for what every test shares: hypothesis profiles, the conformance report, servers and gateways."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.support.conformance", "tests.support.fixtures", "tests.support.spark"]

# `fast` draws the same examples in every run; `deep` (SCOPEGATE_HYPOTHESIS=deep) goes looking for new ones.
settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile(
    "deep", max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("SCOPEGATE_HYPOTHESIS", "fast"))
