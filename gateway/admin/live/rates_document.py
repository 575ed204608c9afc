"""Rates of messages as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.admin.documents.common import Document

if TYPE_CHECKING:
    from gateway.admin.live.rates import Rates

MOST: Final = 500
"""Rules and connectors in one document: those with the highest rates."""


def rates_document(rates: Rates) -> Document:
    """Messages a second of the links of each rule and connector, and events a second of each cluster."""
    busiest = sorted(rates.flows.items(), key=lambda each: each[1].rate, reverse=True)
    clusters: dict[str, dict[str, float]] = {}
    for (cluster, event), rate in rates.events.items():
        clusters.setdefault(cluster, {})[event] = round(rate, 1)
    return {
        "flows": [
            {
                "scope": key.scope,
                "connector": key.connector or None,
                "rule": key.rule or None,
                "direction": key.direction,
                "links": flow.links,
                "rate": round(flow.rate, 1),
            }
            for key, flow in busiest[:MOST]
        ],
        "clusters": clusters,
    }
