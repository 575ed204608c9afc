"""The arguments and results of Arrow's functions. pyarrow has no stubs, so mypy checks only the names of its types."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

Datum: TypeAlias = pa.Array | pa.Scalar
"""A column of a batch, or one value for all rows."""
