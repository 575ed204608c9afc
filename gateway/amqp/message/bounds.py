"""Limits of what is examined in Python in one message: more would delay all other links (docs/design.md, 5).

Bytes that are passed on untouched are limited by the link's max-message-size alone.
"""

from __future__ import annotations

from typing import Final

ANNOTATIONS: Final = 64 * 1024
"""Bytes of the delivery annotations of a message, which are edited at each hop: with more it is rejected."""
SECTIONS: Final = 10_000
"""Sections of a message; more are refused."""
ITEMS: Final = 4096
"""Values in the header, annotations, properties and application properties of a message that becomes a record: each
may be one of the record's headers. With more it is rejected."""
COPIES: Final = 64 * 1024 * 1024
"""Bytes that one message may come to for all receivers of a multicast node, for they are sent it in one turn."""
FIELDS: Final = 64 * 1024
"""Bytes of a section in which filters look at all entries, and of a list or map in a longer one that they decode."""
ENTRIES: Final = 8192
"""Entries of a longer section: in one with more, filters look at none."""
