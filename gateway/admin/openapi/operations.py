"""The operations of the admin API: what each does, its parameters, and the shapes of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import BaseModel

from gateway.admin.openapi import shapes


class Operation(NamedTuple):
    """One method of one path."""

    summary: str
    answer: type[BaseModel] | None
    """The document of a success; None: it is no JSON document."""
    query: tuple[str, ...] = ()
    paged: type[BaseModel] | None = None
    """The items of a list whose pages are counted by position."""
    status: int = 200
    refused: type[BaseModel] | None = None
    """The document of a 409."""
    body: type[BaseModel] | None = None


_PAGE: Final = ("limit", "after")
_GROUP: Final = ("scope", "address", "group")
_LINKS: Final = ("scope", "user", "address", "rule", "direction", "connection", "starved", "order")

PARAMETERS: Final[Mapping[str, str]] = {
    "limit": "items of the page, 1 to 1000; default 100",
    "after": "the id of `next` of the page before",
    "scope": "a scope of the policy",
    "user": "a user",
    "connector": "a connector of the policy",
    "address": "an address",
    "rule": "the pattern of an address rule",
    "direction": "in (the client sends) or out",
    "connection": "the id of a connection",
    "starved": "true: only links that wait for credit",
    "order": "rate: one page of the busiest links",
    "action": "send, receive or info",
    "group": "a consumer group",
    "id": "the id of a group in the list",
    "reason": "a text for the peer and the log, up to 200 characters",
    "cluster": "a Kafka cluster",
    "topic": "a topic",
}
"""What parameters mean; those in braces in a path are part of it."""


def _list(summary: str, item: type[BaseModel]) -> Operation:
    return Operation(summary, None, _PAGE, paged=item)


OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/status"): Operation("The gateway, its parts and what it serves", shapes.Status),
    ("GET", "/connections"): Operation(
        "Connections", shapes.ConnectionPage, (*_PAGE, "scope", "user", "connector")
    ),
    ("GET", "/connections/{id}"): Operation("One connection", shapes.ConnectionShape),
    ("DELETE", "/connections/{id}"): Operation("Close a connection", shapes.Closed, ("reason",)),
    ("GET", "/links"): Operation("Links", shapes.LinkPage, (*_PAGE, *_LINKS)),
    ("GET", "/links/{id}"): Operation("One link", shapes.LinkShape),
    ("DELETE", "/links/{id}"): Operation("Close a link", shapes.Closed, ("reason",)),
    ("GET", "/addresses"): _list("Address rules, in the order in which they are tried", shapes.AddressShape),
    ("GET", "/clusters"): _list("Kafka clusters", shapes.ClusterShape),
    ("GET", "/topics"): _list("Topics that are in use", shapes.TopicShape),
    ("GET", "/topics/{cluster}/{topic}"): Operation("The ends of a topic's partitions", shapes.TopicEnds),
    ("GET", "/groups"): Operation(
        "Groups with links here; or any one, with scope, address and group", shapes.GroupShape, (*_PAGE, *_GROUP),
        paged=shapes.GroupHere,
    ),
    ("POST", "/groups/rebalance"): Operation(
        "Have the links of a group attach again", shapes.GroupShape, ("id", *_GROUP)
    ),
    ("GET", "/bridges"): _list("Bridges", shapes.BridgeShape),
    ("GET", "/connectors"): _list("Connectors", shapes.ConnectorShape),
    ("GET", "/policy"): Operation("The policy in force, and how the last reload ended", shapes.PolicyShape),
    ("GET", "/policy/diff"): Operation("What differs from the policy before", shapes.PolicyDiff),
    ("GET", "/explain"): Operation(
        "What the policy answers", shapes.ExplanationShape, ("scope", "user", "address", "action")
    ),
    ("GET", "/keys"): _list("Signing keys, without their secrets", shapes.KeyShape),
    ("GET", "/certificates"): _list("Certificates that the policy names", shapes.CertificateShape),
    ("GET", "/refusals"): _list("The last refusals, the newest first", shapes.RefusalShape),
    ("GET", "/rates"): Operation("Messages a second", shapes.RatesShape),
    ("GET", "/events"): Operation("Changes as server-sent events, one round a second", None),
    ("GET", "/openapi.json"): Operation("This description", None),
    ("GET", "/session"): Operation("Who the caller is", shapes.SessionShape),
    ("POST", "/session"): Operation("Log in; the answer sets a cookie", shapes.SessionShape, body=shapes.TokenBody),
    ("DELETE", "/session"): Operation("Log out", shapes.Ended),
    ("POST", "/reload"): Operation(
        "Reload the policy, and wait until it is in force", shapes.ReloadAnswer, refused=shapes.ReloadAnswer
    ),
    ("POST", "/check"): Operation("What a reload would find", shapes.CheckAnswer, refused=shapes.CheckAnswer),
    ("POST", "/drain"): Operation("End the gateway in order", shapes.DrainAnswer, status=202),
}  # fmt: skip
