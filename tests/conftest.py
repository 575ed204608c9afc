"""One place for what every test shares: hypothesis profiles, the conformance report, servers and gateways."""

from __future__ import annotations

import importlib
import os
import pkgutil

from hypothesis import HealthCheck, settings

from tests.support.disk import may_mount
from tests.support.examples import FAST

_OURS = ("conformance", "fixtures", "spark", "tiers")
pytest_plugins = ["pytester", *(f"tests.support.{name}" for name in _OURS)]
if os.environ.get("SCOPEGATE_COVERAGE"):
    pytest_plugins.append("tests.coverage.plugin")

# `fast` draws the same examples in every run; `deep` (SCOPEGATE_HYPOTHESIS=deep) goes looking for new ones. How long
# drawing takes says how busy the machine is: others of the suite's processes start servers meanwhile.
_TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=FAST, derandomize=True, **_TIMELESS)
settings.register_profile("deep", max_examples=100 * FAST, print_blob=True, **_TIMELESS)
settings.load_profile(os.environ.get("SCOPEGATE_HYPOTHESIS", "fast"))


def _load_all() -> None:
    """Load the whole project: hypothesis draws what its modules compare with, and so by what has run before."""
    for name in ("gateway", "bridges", "policies"):
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(found.name)


if "PYTEST_XDIST_WORKER" in os.environ:
    _load_all()

# The tests of a full disk fill a real one of their own. Who may not mount one hears that they are left out.
collect_ignore = [] if may_mount() else ["integration/test_pipeline_disk.py"]


def pytest_report_header() -> list[str]:
    """What this run leaves out."""
    return [f"left out, for mounting is not permitted here: {name}" for name in collect_ignore]
