"""The policy file as typed, frozen values (docs/policy.md); every key has a default except `scopes`.

Keys that identify a list entry (`match`, `may`, `name`, `to`) have no default: there is no useful one.
"""

from pydantic import Field

from policies.model.filters import Filters
from policies.model.gateway import GatewaySection
from policies.model.kafka import KafkaCluster
from policies.model.keys import KeysSection
from policies.model.pipeline import PipelineSection
from policies.model.scopes.scope import ScopeSection
from policies.values.base import Name, Strict


class Policy(Strict):
    """The whole policy file."""

    gateway: GatewaySection = Field(default_factory=GatewaySection, description="the process itself")
    keys: KeysSection | None = Field(default=None, description="signing keys; every relay with replies needs them")
    kafka: dict[Name, KafkaCluster] = Field(default_factory=dict, description="the Kafka clusters, by name")
    filters: Filters = Field(default_factory=Filters, description="filters on what clients receive")
    pipeline: PipelineSection | None = Field(
        default=None, description="defaults of `scopegate pipeline`, see PipelineSection; default: none"
    )
    scopes: dict[Name, ScopeSection] = Field(min_length=1, description="the scopes, by name")
