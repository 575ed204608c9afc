"""What gateways that share a manager store for each other: checkpoints by bucket, and the revision in force.

The room uses stored termini of `gateway.state`.
"""

from __future__ import annotations

from bridges.cloudevents.dispatch.stored import checkpoint_record, remote_records

__all__ = ["checkpoint_record", "remote_records"]
