"""User files and certificates that a policy names, read and checked before a start or reload changes anything.

The result is all of them, or one error that lists every mistake.
"""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.amqp.sasl.verifiers import UserStore
from gateway.amqp.transport.tls import ServerTls, TlsError, client_context, out_of_date
from gateway.tracing.library import missing
from policies.model.scopes.event_hubs import SharedKey
from policies.text.diagnostics import Diagnostic, Loc

if TYPE_CHECKING:
    from policies.model.scopes.api import ApiSection
    from policies.model.scopes.connect import ConnectorSection, ConnectorTls
    from policies.model.scopes.listen import ListenerSection, ListenerTls
    from policies.model.scopes.scope import ScopeSection
    from policies.model.scopes.sinks import SinkTls
    from policies.rules import CompiledPolicy

_NOBODY: Final = UserStore({})


class CredentialFilesError(Exception):
    """Some files cannot be used; `problems` has one line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: Final = problems


@dataclass(slots=True)
class CredentialFiles:
    """The files that were read: users by file name, TLS by the listener or connector that uses it."""

    users: dict[str, UserStore] = field(default_factory=dict)
    servers: dict[ListenerSection | ApiSection, ServerTls] = field(default_factory=dict)
    admin: ServerTls | None = None
    """TLS of the admin API's port."""
    clients: dict[ConnectorSection, ssl.SSLContext] = field(default_factory=dict)
    keys: dict[ListenerSection | ApiSection, tuple[SharedKey, ...]] = field(default_factory=dict, repr=False)
    """The keys of the dialects of listeners."""
    warnings: list[str] = field(default_factory=list)
    """Things that work, but should be changed."""

    def users_of(self, listener: ListenerSection | ApiSection) -> UserStore:
        """The users that may log in at a listener."""
        return _NOBODY if listener.users is None else self.users[str(listener.users)]


    def keys_of(self, listener: ListenerSection) -> tuple[SharedKey, ...]:
        """The keys that sign tokens for a listener."""
        return self.keys.get(listener, ())


CheckCluster = Callable[[Mapping[str, str]], str | None]
"""The mistake that a Kafka client finds in its settings before it connects, or None."""


def load_credential_files(policy: CompiledPolicy, check_cluster: CheckCluster) -> CredentialFiles:
    """Read every file that the policy names; raises `CredentialFilesError` with all mistakes."""
    credentials, problems = CredentialFiles(), list[str]()
    for name, cluster in policy.model.kafka.items():
        if settings := policy.client_settings(cluster):
            mistake = check_cluster(settings)
            problems += [mistake_at(policy, ("kafka", name), mistake)] if mistake else []
    problems += _admin(policy, credentials)
    problems += _tracing(policy)
    for name, scope in policy.model.scopes.items():
        for place, listener in listeners_of(scope):
            problems += _listener(policy, listener, credentials, ("scopes", name, *place))
        for at, connector in enumerate(scope.connect):
            problems += _connector(policy, connector, credentials, ("scopes", name, "connect", at, "tls"))
        for place, tls in _sinks(scope):
            problems += _sink(policy, tls, ("scopes", name, *place))
    if problems:
        raise CredentialFilesError(problems)
    now = datetime.now(UTC)
    credentials.warnings += [
        *_exposed(policy), *_out_of_date(policy, now), *_expired_keys(policy, now),
        *_unknown_users(policy, credentials),
    ]  # fmt: skip
    return credentials


def _tracing(policy: CompiledPolicy) -> Iterator[str]:
    """Traces need a library that is not always installed."""
    if policy.model.gateway.tracing is not None and (lacks := missing()) is not None:
        yield mistake_at(policy, ("gateway", "tracing"), lacks)


def mistake_at(policy: CompiledPolicy, loc: Loc, message: str) -> str:
    """A mistake in a file that the policy names at `loc`, with file, line and column of that place."""
    from policies.text.tree import parse  # parses the policy once more: only if there is a mistake

    return str(parse(policy.text.encode(), str(policy.file)).locate(Diagnostic(loc, message)))


def listeners_of(scope: ScopeSection) -> Iterator[tuple[Loc, ListenerSection | ApiSection]]:
    """Everything that listens in a scope, with its place there."""
    yield from ((("listen", at), each) for at, each in enumerate(scope.listen))
    yield from ((("api", at), each) for at, each in enumerate(scope.api))


def _sinks(scope: ScopeSection) -> Iterator[tuple[Loc, SinkTls]]:
    """The certificates for sinks and token endpoints, each with its place in the scope."""
    for number, manager in enumerate(scope.subscriptions):
        entries = [(("sinks", at), entry.tls) for at, entry in enumerate(manager.sinks)]
        entries += [(("oauth", at), entry.tls) for at, entry in enumerate(manager.oauth)]
        yield from ((("subscriptions", number, *place, "tls"), tls) for place, tls in entries if tls is not None)


def _exposed(policy: CompiledPolicy) -> Iterator[str]:
    """Warnings about files with secrets or users that every user of this machine may read or change."""
    listeners = [listener for scope in policy.model.scopes.values() for _, listener in listeners_of(scope)]
    private = [secret.file for secret in policy.secrets] + [each.tls.key for each in listeners if each.tls is not None]
    if (admin := policy.model.gateway.admin.tls) is not None:
        private.append(admin.key)
    private += [tls.key for scope in policy.model.scopes.values() for _, tls in _sinks(scope)]
    for name in dict.fromkeys(filter(None, private)):
        if (mode := policy.path(name).stat().st_mode) & (stat.S_IWOTH | stat.S_IROTH):
            done = "written" if mode & stat.S_IWOTH else "read"
            yield f"{policy.path(name)}: can be {done} by every user of this machine; use chmod 600"
    for users in dict.fromkeys(str(each.users) for each in listeners if each.users is not None):
        if policy.path(users).stat().st_mode & stat.S_IWOTH:
            yield f"{policy.path(users)}: can be written by every user of this machine; use chmod 644"


def _out_of_date(policy: CompiledPolicy, now: datetime) -> Iterator[str]:
    """Warnings about certificates that have expired or are not valid yet."""
    admin = policy.model.gateway.admin.tls
    names: list[str | None] = [] if admin is None else [admin.cert, admin.client_ca]
    for scope in policy.model.scopes.values():
        for _, listener in listeners_of(scope):
            names += [] if listener.tls is None else [listener.tls.cert, listener.tls.client_ca]
        for connector in scope.connect:
            names += [connector.tls.cert, connector.tls.ca]
        for _, tls in _sinks(scope):
            names += [tls.cert, tls.ca]
    for name in dict.fromkeys(filter(None, names)):
        yield from out_of_date(policy.path(name), now)


def _expired_keys(policy: CompiledPolicy, now: datetime) -> Iterator[str]:
    """Warnings about keys of the ring that verify nothing any more."""
    for name, key in policy.model.keys.ring.items() if policy.model.keys is not None else ():
        if key.until is not None and key.until <= now.timestamp() * 1000:
            until = datetime.fromtimestamp(key.until / 1000, UTC)
            text = f"expired on {until:%Y-%m-%d %H:%M} UTC: no response is verified with this key any more; remove it"
            yield mistake_at(policy, ("keys", "ring", name, "until"), text)


def _unknown_users(policy: CompiledPolicy, credentials: CredentialFiles) -> Iterator[str]:
    """Warnings about users in `access` that cannot log in anywhere in the scope, where passwords are the only way."""
    for name, scope in policy.model.scopes.items():
        listeners = [each for _, each in listeners_of(scope)]
        if not listeners or not all(map(_by_password, listeners)):
            continue
        stores = [credentials.users_of(each) for each in listeners]
        for at, entry in enumerate(scope.access):
            for user in entry.who:
                if "*" not in user and not any(user in store for store in stores):
                    text = f"no users file of this scope's listeners has the user {user}"
                    yield mistake_at(policy, ("scopes", name, "access", at, "who"), text)


def _by_password(listener: ListenerSection | ApiSection) -> bool:
    """Whether every user of a listener is in its users file."""
    return listener.users is not None and not mechanisms_of(listener) & {"anonymous", "external", "certificate"}


def mechanisms_of(listener: ListenerSection | ApiSection) -> set[str]:
    """How clients of a listener log in, in lower case."""
    from policies.model.scopes.listen import ListenerSection

    return {name.lower() for name in (listener.sasl if isinstance(listener, ListenerSection) else listener.auth)}


def _users(path: Path, warnings: list[str]) -> UserStore:
    """The users of a file; raises UsersError, OSError or UnicodeError if it cannot be used."""
    from gateway.amqp.sasl.user_file import UsersError, load_users

    text = path.read_text()
    if not text.strip():  # probably an unfinished replacement of the file: it would disconnect every user
        raise UsersError(["1:1: the users file is empty; {} says that nobody may log in"])
    users = load_users(text)
    if users.changes:
        reason = "answers to unknown users change with every change of the file, which tells them from known ones"
        warnings.append(f"{path}: has no $secret: {reason}; `scopegate users add` makes one")
    if not len(users):
        warnings.append(f"{path}: holds no user: nobody can log in with a password; `scopegate users add` adds one")
    return users


def _users_file(policy: CompiledPolicy, name: str, credentials: CredentialFiles, loc: Loc) -> list[str]:
    from gateway.amqp.sasl.user_file import UsersError  # imports SCRAM: only if the policy has users

    path = policy.path(name)
    try:
        credentials.users[name] = _users(path, credentials.warnings)
    except UsersError as error:
        return [f"{path}:{problem}" for problem in error.problems]
    except (OSError, UnicodeError) as error:
        return [mistake_at(policy, (*loc, "users"), f"{path}: {error}")]
    return []


def _listener(
    policy: CompiledPolicy, model: ListenerSection | ApiSection, credentials: CredentialFiles, loc: Loc
) -> list[str]:
    problems = []
    if (hubs := getattr(model, "event_hubs", None)) is not None:
        credentials.keys[model] = tuple(SharedKey(key.name, key.user, policy.secret(key)) for key in hubs.keys)
    if model.users is not None and str(model.users) not in credentials.users:
        problems += _users_file(policy, str(model.users), credentials, loc)
    if (tls := model.tls) is not None:
        try:
            credentials.servers[model] = _server(policy, tls)
        except TlsError as error:
            problems.append(mistake_at(policy, (*loc, "tls"), str(error)))
    return problems


def _admin(policy: CompiledPolicy, credentials: CredentialFiles) -> list[str]:
    tls = policy.model.gateway.admin.tls
    try:
        credentials.admin = None if tls is None else _server(policy, tls)
    except TlsError as error:
        return [mistake_at(policy, ("gateway", "admin", "tls"), str(error))]
    return []


def _server(policy: CompiledPolicy, tls: ListenerTls) -> ServerTls:
    """TLS of a listener. Raises TlsError."""
    return ServerTls(
        policy.path(tls.cert),
        policy.path(tls.key),
        password=key_password(policy, tls),
        client_ca=policy.path(tls.client_ca) if tls.client_ca is not None else None,
        require_client_cert=tls.require_client_cert,
    )


def _connector(policy: CompiledPolicy, model: ConnectorSection, credentials: CredentialFiles, loc: Loc) -> list[str]:
    if not any(endpoint.tls for endpoint in model.to):
        return []
    ca, cert, key = _paths(policy, model.tls)
    try:
        credentials.clients[model] = client_context(
            ca=ca, cert=cert, key=key, password=key_password(policy, model.tls), verify=model.tls.verify
        )
    except TlsError as error:
        return [mistake_at(policy, loc, str(error))]
    return []


def _sink(policy: CompiledPolicy, tls: SinkTls, loc: Loc) -> list[str]:
    """Whether the files can be used; each sink reads them when it is opened."""
    ca, cert, key = _paths(policy, tls)
    try:
        client_context(ca=ca, cert=cert, key=key, password=key_password(policy, tls))
    except TlsError as error:
        return [mistake_at(policy, loc, str(error))]
    return []


def key_password(policy: CompiledPolicy, tls: ListenerTls | ConnectorTls | SinkTls) -> bytes | None:
    """The password of an encrypted key."""
    return None if tls.key_password is None else policy.secret(tls.key_password)


def _paths(policy: CompiledPolicy, tls: ConnectorTls | SinkTls) -> tuple[Path | None, Path | None, Path | None]:
    ca, cert, key = (policy.path(name) if name else None for name in (tls.ca, tls.cert, tls.key))
    return ca, cert, key
