"""The suite. Where a run measures coverage, each of its processes comes by here before it imports the product."""

import os

if os.environ.get("SCOPEGATE_COVERAGE"):
    from tests.coverage import measuring

    measuring.start(os.environ["SCOPEGATE_COVERAGE"])
