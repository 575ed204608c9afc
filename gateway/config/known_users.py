"""Whether a name can still be a user of a scope: for what users leave behind that works without their connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.config.credential_files import CredentialFiles, listeners_of, mechanisms_of
from policies.model.scopes.addresses import RelayRule

if TYPE_CHECKING:
    from policies.model.policy import Policy
    from policies.model.scopes.api import ApiSection
    from policies.model.scopes.listen import ListenerSection

_ANONYMOUS: Final = "anonymous"
"""The way to log in without a name, and the name of the user that this makes."""


def login_check(policy: Policy, credentials: CredentialFiles, scope: str) -> Callable[[str], bool]:
    """A function that tells whether a name can be a user of the scope, or of one that relays into it.

    Certificates may have any name: where they are a login, everybody can be a user. The same is said of a scope where
    nothing listens.
    """
    listeners = [each for name in _entrances(policy, scope) for _, each in listeners_of(policy.scopes[name])]
    return lambda user: not listeners or any(_may_be_user(credentials, each, user) for each in listeners)


def _entrances(policy: Policy, scope: str) -> Iterator[str]:
    """The scopes whose users may act in a scope."""
    for name, each in policy.scopes.items():
        if name == scope or any(isinstance(rule, RelayRule) and rule.relay == scope for rule in each.addresses):
            yield name


def _may_be_user(credentials: CredentialFiles, listener: ListenerSection | ApiSection, user: str) -> bool:
    mechanisms = mechanisms_of(listener)
    if mechanisms & {"external", "certificate"} or user in credentials.users_of(listener):
        return True
    keys = credentials.keys.get(listener, ())
    return (user == _ANONYMOUS and _ANONYMOUS in mechanisms) or any(key.user == user for key in keys)
