"""One place for what every test shares: hypothesis profiles, the conformance report, servers and gateways."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

from tests.support.plugins.examples import FAST, draw_no_constants
from tests.support.servers.disk import may_mount

_OURS = (
    "plugins.conformance", "plugins.fixtures", "plugins.forks", "plugins.order", "plugins.reports", "plugins.tiers",
    "spark.spark",
)  # fmt: skip
pytest_plugins = ["pytester", *(f"tests.support.{name}" for name in _OURS)]
if os.environ.get("SCOPEGATE_COVERAGE"):
    pytest_plugins.append("tests.coverage.plugin")

# `fast` draws the same examples in every run; `deep` (SCOPEGATE_HYPOTHESIS=deep) goes looking for new ones, also among
# the constants of what it tests. How long drawing takes says how busy the machine is.
_TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=FAST, derandomize=True, **_TIMELESS)
settings.register_profile("deep", max_examples=100 * FAST, print_blob=True, **_TIMELESS)
settings.load_profile(os.environ.get("SCOPEGATE_HYPOTHESIS", "fast"))
if settings.get_current_profile_name() == "fast":
    draw_no_constants()

# The suite's servers are on this machine, and a proxy of the environment would ask its own.
_OTHERS = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "localhost"
os.environ["no_proxy"] = f"{_OTHERS},localhost,127.0.0.1,::1"

# A shell lets what it runs in the background ignore interrupts, which children inherit. Some tests interrupt theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests of a full disk fill a real one of their own. Who may not mount one hears that they are left out.
collect_ignore = [] if may_mount() else ["integration/spark/archive/test_disk.py"]


def pytest_report_header() -> list[str]:
    """What this run leaves out."""
    return [f"left out, for mounting is not permitted here: {name}" for name in collect_ignore]
