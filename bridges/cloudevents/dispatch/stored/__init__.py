"""What gateways that share a manager store for each other: checkpoints by bucket, and the revision in force.

The room uses stored termini of `gateway.state`.
"""

from __future__ import annotations

from bridges.cloudevents.dispatch.stored import by_bucket, checkpoint_record, remote_records

__all__ = ["by_bucket", "checkpoint_record", "remote_records"]
