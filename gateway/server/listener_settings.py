"""What the policy says of one listener, with what the gateway adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.model.scopes.listen import ListenerSection as ListenerModel


@dataclass(frozen=True, slots=True)
class Settings:
    """What one listener was told; equal settings keep it through a reload."""

    scope: str
    model: ListenerModel
    container_id: str
    offered: tuple[str, ...]
