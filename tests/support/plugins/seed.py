"""The seed and the duration that `make soak` passes to tests that draw, or that run for a time."""

from __future__ import annotations

import os
import random
from typing import Final

SEED: Final = int(os.environ.get("SCOPEGATE_SEED") or random.SystemRandom().randrange(1 << 32))
"""What the test draws comes of this; the same seed draws the same."""
SECONDS: Final = float(os.environ.get("SCOPEGATE_SECONDS") or 20)
"""How long a test goes on that could go on for ever."""
