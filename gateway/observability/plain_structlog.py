"""structlog without rich: where that is installed, it takes a tenth of a start, for tracebacks that are never printed.

Who needs rich can import it afterwards.
"""

from __future__ import annotations

import sys

_RICH = "rich"
_absent = _RICH not in sys.modules
if _absent:
    sys.modules[_RICH] = None  # type: ignore[assignment]  # Python's way to say that there is no such module
try:
    import structlog as structlog
finally:
    if _absent:
        del sys.modules[_RICH]
