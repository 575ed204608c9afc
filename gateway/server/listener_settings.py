"""The settings of one listener, from the policy and the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.model.scopes.listen import ListenerSection as ListenerModel


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one listener; a reload keeps a listener whose settings are equal."""

    scope: str
    model: ListenerModel
    container_id: str
    offered: tuple[str, ...]
