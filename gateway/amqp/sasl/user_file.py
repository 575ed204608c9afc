"""The users file: YAML, SCRAM verifiers per user, never a password.

`user: {scram-sha-256: {salt, iterations, stored_key, server_key}, scram-sha-512: …}`, the binary fields
in base64 (the same four as in RFC 5803). `$secret` is the key of the verifiers that are invented for unknown users.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import scramp  # noqa: F401  logins need it: here, none of them waits until it is imported
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.compat import StringIO
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from gateway.amqp.sasl import quick_yaml as quick
from gateway.amqp.sasl.verifiers import (
    HASHES,
    ITERATIONS,
    MAX_CHARACTERS,
    RESERVED,
    UserStore,
    Verifier,
    Verifiers,
    derive,
    prepare,
)

__all__ = ["UserStore", "UsersError", "list_users", "load_users", "make_entry", "put_user", "remove_user"]

Entry = dict[str, dict[str, str | int]]

FIELDS: Final = ("salt", "iterations", "stored_key", "server_key")
# RFC 7677, 4 asks for at least 4096. The upper bound is ours: PLAIN hashes on the event loop, and
# 100,000 iterations already take tens of milliseconds.
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 100_000
MIN_SALT: Final = 12
FORBIDDEN: Final = (
    f"is empty, has more than {MAX_CHARACTERS} characters or holds some that SASLprep (RFC 4013) forbids"
)
SECRET: Final = "$secret"  # noqa: S105  the name of a key
"""The key of the users file that is not a user."""
MIN_SECRET: Final = 16
_TAKEN: Final = {**RESERVED, SECRET: "is the key of invented verifiers"}


class UsersError(ValueError):
    """A users file that cannot be used; `problems` lists every mistake as `line:column: text`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: Final = problems


def make_entry(password: str, *, salt: bytes, iterations: int = ITERATIONS) -> Entry:
    """The file's entry for one user, for every mechanism; `salt` must be fresh and random."""
    prepared = prepare(password)
    if prepared is None:
        raise ValueError(f"the password {FORBIDDEN}")
    if len(salt) < MIN_SALT or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"salt: {MIN_SALT} bytes or more; iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return {name: _shown(derive(prepared, name, salt, iterations)) for name in HASHES}


def _shown(verifier: Verifier) -> dict[str, str | int]:
    salt, iterations, stored_key, server_key = verifier
    return {
        "salt": b64encode(salt).decode(),
        "iterations": iterations,
        "stored_key": b64encode(stored_key).decode(),
        "server_key": b64encode(server_key).decode(),
    }


def put_user(
    text: str, user: str, entry: Mapping[str, Mapping[str, str | int]], *, secret: bytes | None = None
) -> str:
    """The users file `text` with `user` added or replaced; comments and other entries stay.

    `secret` becomes the file's `$secret` if it has none.
    """
    name = prepare(user)
    if name is None:
        raise ValueError(f"the user name {FORBIDDEN}")
    if name in _TAKEN:
        raise ValueError(f"no user can be called {name!r}: the name {_TAKEN[name]}")
    load_users(text)
    yaml = YAML()
    root = yaml.load(text)
    # A file with nothing but comments parses to nothing: keep its text in front.
    out = StringIO()
    if root is None:
        root = CommentedMap()
        out.write(text and text.rstrip("\n") + "\n")
    if secret is not None and SECRET not in root:
        root.insert(0, SECRET, b64encode(secret).decode())
    key = next((known for known in root if prepare(known) == name), name)
    root[key] = {mechanism: dict(fields) for mechanism, fields in entry.items()}
    yaml.dump(root, out)
    return str(out.getvalue())


def list_users(text: str) -> list[str]:
    """The names of the users in a file, in its order; raises `UsersError`."""
    load_users(text)
    return [str(name) for name in YAML().load(text) or () if name != SECRET]


def remove_user(text: str, user: str) -> str:
    """The users file `text` without `user`; comments and other entries stay. ValueError: there is no such user."""
    known = list_users(text)
    name = prepare(user)
    found = next((each for each in known if name is not None and prepare(each) == name), None)
    if found is None:
        raise ValueError(f"there is no user {user!r} (users: {', '.join(known) or 'none'})")
    left = _without(text, found)
    with suppress(UsersError):
        if list_users(left) == [each for each in known if each != found]:
            return left
    raise ValueError(f"{user!r} shares lines, or an anchor, with others: edit the file by hand")


def _without(text: str, key: str) -> str:
    """A file of users without the lines of one of them; what stands above the next one stays."""
    root, lines = YAML().load(text), text.splitlines(keepends=True)
    begins = sorted((root.lc.key(each)[0], each != key) for each in root)
    first = root.lc.key(key)[0]
    end = next((line for line, other in begins if other and line >= first), len(lines))
    while end > first + 1 and lines[end - 1].lstrip()[:1] in {"", "#"}:
        end -= 1
    left = "".join(lines[:first] + lines[end:])
    return left if len(root) > 1 else f"{left}{{}}\n"


def load_users(text: str) -> UserStore:
    """Read a users file; raises `UsersError` with every mistake, each with its line and column.

    5,000 users take half a second. A file with a mistake is parsed again, more slowly, to say where it is.
    """
    try:
        return _store(quick.parse(text), _Doubting([]))
    except quick.Unsure:
        pass
    root = _parse(text)
    if root is None:
        return UserStore({})
    if not isinstance(root, CommentedMap):
        raise UsersError(["1:1: the users file must be a map of user names"])
    return _store(root, _UsersReader([]))


def _store(root: quick.YamlMap, reader: _UsersReader) -> UserStore:
    secret = reader.secret(root)
    users: dict[str, Verifiers] = {}
    for name, verifiers in reader.users(root):
        if name in users:
            reader.problem(f"1:1: user {name!r} is there twice after SASLprep (RFC 4013)")
        users[name] = verifiers
    if reader.problems:
        raise UsersError(reader.problems)
    return UserStore(users, secret)


def _parse(text: str) -> object:
    try:
        root: object = YAML().load(text)
        return root
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{mark.line + 1}:{mark.column + 1}" if mark is not None else "1:1"
        raise UsersError([f"{where}: {error.problem}"]) from None
    except YAMLError as error:
        raise UsersError([f"1:1: {str(error).splitlines()[0]}"]) from None
    except RecursionError:
        raise UsersError(["1:1: too deep: the users file must be a map of user names"]) from None


class _UsersReader:
    """Checks the parsed file, and collects every mistake."""

    def __init__(self, problems: list[str]) -> None:
        self.problems: Final = problems

    def problem(self, text: str) -> None:
        """Add a mistake: `line:column: text`."""
        self.problems.append(text)

    def secret(self, root: quick.YamlMap) -> bytes | None:
        """The key of invented verifiers, if the file has one."""
        return self._binary(root, SECRET, SECRET, MIN_SECRET, 255) or None if SECRET in root else None

    def users(self, root: quick.YamlMap) -> Iterator[tuple[str, Verifiers]]:
        for key in root:
            name = prepare(key) if isinstance(key, str) else None
            if name is None or not isinstance(key, str):
                what = f"a user name must be text of at most {MAX_CHARACTERS} characters that SASLprep allows"
                self._note(root, key, f"{what}; quote numbers")
            elif name == SECRET:
                continue
            elif name in _TAKEN:
                self._note(root, key, f"no user can be called {name!r}: the name {_TAKEN[name]}")
            else:
                yield name, self._user(root, key)

    def _user(self, root: quick.YamlMap, name: str) -> Verifiers:
        entry = self._map(root, name, f"user {name!r}", tuple(HASHES))
        if entry is None:
            return {}
        if not entry:
            self._note(root, name, f"user {name!r} needs at least one of {', '.join(HASHES)}")
        read = {key: self._verifier(entry, name, key) for key in entry if key in HASHES}
        return {key: verifier for key, verifier in read.items() if verifier is not None}

    def _verifier(self, entry: quick.YamlMap, user: str, mechanism: str) -> Verifier | None:
        label = f"user {user!r}, {mechanism}"
        fields = self._map(entry, mechanism, label, FIELDS)
        if fields is None:
            return None
        if missing := [field for field in FIELDS if field not in fields]:
            self._note(entry, mechanism, f"{label}: missing {', '.join(missing)}")
            return None
        size = hashlib.new(HASHES[mechanism]).digest_size
        salt = self._binary(fields, "salt", label, MIN_SALT, 255)
        rounds = self._rounds(fields, label)
        stored = self._binary(fields, "stored_key", label, size, size)
        server = self._binary(fields, "server_key", label, size, size)
        return Verifier(salt, rounds, stored, server) if salt and rounds and stored and server else None

    def _map(
        self, parent: quick.YamlMap, key: str, label: str, allowed: tuple[str, ...]
    ) -> quick.YamlMap | None:
        value = parent[key]
        if not isinstance(value, dict):
            self._note(parent, key, f"{label}: must be a map with {', '.join(allowed)}")
            return None
        for name in value:
            if name not in allowed:
                self._note(value, name, f"{label}: unknown key {name!r}; allowed: {', '.join(allowed)}")
        return value

    def _rounds(self, fields: quick.YamlMap, label: str) -> int:
        value = fields["iterations"]
        if isinstance(value, int) and MIN_ITERATIONS <= value <= MAX_ITERATIONS:
            return int(value)
        allowed = f"a whole number from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        self._note(fields, "iterations", f"{label}, iterations: must be {allowed}")
        return 0

    def _binary(self, fields: quick.YamlMap, key: str, label: str, least: int, most: int) -> bytes:
        value = fields[key]
        try:
            data = b64decode(value, validate=True) if isinstance(value, str) else b""
        except (binascii.Error, ValueError):
            data = b""
        if least <= len(data) <= most:
            return data
        allowed = f"exactly {least} bytes" if least == most else f"{least} to {most} bytes"
        self._note(fields, key, f"{label}, {key}: must be base64 of {allowed}")
        return b""

    def _note(self, parent: quick.YamlMap, key: object, text: str) -> None:
        assert isinstance(parent, CommentedMap)
        line, column = parent.lc.key(key)
        self.problem(f"{line + 1}:{column + 1}: {text}")


class _Doubting(_UsersReader):
    """Reads the result of the quick parser, which has no positions and treats every scalar as text."""

    def problem(self, text: str) -> None:
        raise quick.Unsure

    def _rounds(self, fields: quick.YamlMap, label: str) -> int:
        return super()._rounds({"iterations": quick.whole_number(fields["iterations"])}, label)

    def _note(self, parent: quick.YamlMap, key: object, text: str) -> None:
        raise quick.Unsure
