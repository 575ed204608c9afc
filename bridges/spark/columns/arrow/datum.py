"""What Arrow's functions take and give. pyarrow has no stubs, so mypy checks the names of its types, not their use."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

Datum: TypeAlias = pa.Array | pa.Scalar
"""A column of a batch, or one value for all rows."""
