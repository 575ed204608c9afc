"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import re
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway import __version__
from gateway.amqp.sasl.user_file import load_users, make_entry
from gateway.cli.main import main
from policies.load.secrets import signing_key
from tests.support.gateway.policy import KEY
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Authority

QUICKSTART = str(ROOT / "policies" / "examples" / "quickstart.yaml")


def call(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, args, input=stdin)


@pytest.fixture(autouse=True)
def quickstart_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOPEGATE_QUICKSTART_KEY", KEY)
    monkeypatch.setenv("SCOPEGATE_QUICKSTART_TOKEN", KEY)


def test_check_counts_what_is_right() -> None:
    result = call("check", QUICKSTART)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "ok: 2 scopes, 2 listeners, 0 connectors, 5 address rules, 3 access rules, 1 Kafka cluster\n"
    )


def test_check_prints_every_mistake(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("gateway: {drian: 1s}\nscopes: {edge: {listen: [{bind: x}]}}\n")
    result = call("check", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    first, second, last = result.stderr.splitlines()
    assert first.startswith(f"{file}:1:11: gateway.drian: unknown key; did you mean drain?")
    assert second.startswith(f"{file}:2:33: scopes.edge.listen[0].bind: needs")
    assert last == "2 mistakes"


def test_check_warns_without_failing(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("scopes: {edge: {listen: [{}]}}\n")
    result = call("check", str(file))
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {file}:1:10: scopes.edge: has no access entries")


def test_check_can_do_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCOPEGATE_QUICKSTART_KEY")
    assert "SCOPEGATE_QUICKSTART_KEY is not set" in call("check", QUICKSTART).stderr
    assert call("check", "--no-secrets", QUICKSTART).exit_code == 0


def test_a_missing_file_is_a_mistake_like_any_other() -> None:
    result = call("check", "nowhere.yaml")
    assert result.exit_code == 1
    assert "nowhere.yaml: cannot be read: No such file or directory" in result.stderr


def test_explain_allowed_and_refused() -> None:
    where = ("explain", QUICKSTART, "--scope", "edge")
    allowed = call(*where, "--address", "svc/echo", "--send")
    assert allowed.exit_code == 0
    assert "relay to scope core, address services/echo" in allowed.stdout
    refused = call(*where, "--address", "nothing", "--receive", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["condition"] == "amqp:not-found"
    info = call(*where, "--address", "events/orders", "--info", "--json", "--user", "bob")
    assert json.loads(info.stdout)["kind"] == "service"


def test_explain_wants_a_scope_that_exists_and_an_action() -> None:
    for actions in ((), ("--send", "--receive"), ("--info", "--send"), ("--send", "--subscribe", "-")):
        refused = call("explain", QUICKSTART, "--scope", "edge", "--address", "a", *actions)
        assert refused.exit_code == 2, actions
        assert "name one action of the client" in refused.stderr
    result = call("explain", QUICKSTART, "--scope", "edgy", "--address", "a", "--send")
    assert result.exit_code == 2
    assert "there is: edge, core" in result.stderr


def test_schema_is_json() -> None:
    assert json.loads(call("schema").stdout)["title"] == "ScopeGate policy file"
    assert call("schema", "--markdown").stdout.startswith("# The policy file\n")


def test_a_new_key_is_usable_and_comes_with_its_line() -> None:
    result = call("keys", "new", "--id", "2026-11")
    variable, _, secret = result.stdout.splitlines()[0].partition("=")
    assert variable == "SCOPEGATE_KEY_2026_11"
    assert len(signing_key(secret.encode())) == 32
    assert '"2026-11": {env: SCOPEGATE_KEY_2026_11}' in result.stdout
    assert call("keys", "new", "--id", "a b").exit_code == 2


def test_a_new_key_in_a_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "key"
    result = call("keys", "new", "--id", "a", "--out", str(file))
    assert result.exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text()
    assert len(signing_key(secret.strip().encode())) == 32
    assert secret.strip() not in result.output
    assert f'"a": {{file: "{file}"}}' in result.stdout
    assert call("keys", "new", "--out", str(file)).exit_code == 1
    assert file.read_text() == secret


def test_users_are_added_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    for user, password in (("ann", "number one"), ("bob", "number two"), ("ann", "number three")):
        result = call("users", "add", str(file), user, "--password-stdin", stdin=f"{password}\n")
        assert result.output == f"{user} is in {file}\n"
    store = load_users(file.read_text())
    assert store.check_password("ann", "number three") == "ann"
    assert store.check_password("ann", "number one") is None
    assert store.check_password("bob", "number two") == "bob"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["users.yaml"]


NOTES = "# people\n{ann}\n# services, which nobody logs in as\n{bob}# the end\n"


def test_a_user_is_removed_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    for user in ("ann", "bob"):
        assert call("users", "add", str(file), user, "--password-stdin", stdin="number one\n").exit_code == 0
    head, ann, bob = re.split(r"^(?=ann|bob)", file.read_text(), flags=re.MULTILINE)
    file.write_text(head + NOTES.format(ann=ann, bob=bob))
    assert call("users", "list", str(file)).output == "ann\nbob\n"
    result = call("users", "remove", str(file), "ann")
    assert (result.exit_code, result.output) == (0, f"ann is no longer in {file}\n")
    assert file.read_text() == head + NOTES.format(ann="", bob=bob)
    assert call("users", "remove", str(file), "bob").exit_code == 0
    assert call("users", "list", str(file)).output == ""
    load_users(file.read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["users.yaml"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no user 'ann' (users: none)"),
        ("{bob: {BOB}}", "there is no user 'ann' (users: bob)"),
        ("{bob: {BOB}, ann: {BOB}}", "'ann' shares lines, or an anchor, with others: edit the file by hand"),
        ("ann: &same {BOB}\nbob: *same\n", "'ann' shares lines, or an anchor, with others: edit the file by hand"),
        ("- ann", "1:1: the users file must be a map of user names"),
    ],
)
def test_a_user_that_cannot_be_removed_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "users.yaml"
    entry = json.dumps(make_entry("a-long-password", salt=b"0123456789abcdef"))
    file.write_text(text := text.replace("{BOB}", entry))
    result = call("users", "remove", str(file), "ann")
    assert (result.exit_code, result.output) == (1, f"{file}: {said}\n")
    assert file.read_text() == text


def test_the_users_file_has_one_secret_for_its_life(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    made = []
    for user in ("ann", "bob"):
        assert call("users", "add", str(file), user, "--password-stdin", stdin="number one\n").exit_code == 0
        made.append(next(line for line in file.read_text().splitlines() if line.startswith("$secret: ")))
    assert made[0] == made[1]
    assert len(made[0]) > 40


def test_a_short_password_is_warned_of(tmp_path: Path) -> None:
    result = call("users", "add", str(tmp_path / "users.yaml"), "ann", "--password-stdin", stdin="x\n")
    assert result.exit_code == 0
    assert result.stderr == "warning: the password has fewer than 8 characters and can be guessed\n"


@pytest.mark.parametrize("name", ["anonymous", "*", "$secret", "n" * 256])
def test_names_that_no_user_may_have(tmp_path: Path, name: str) -> None:
    file = tmp_path / "users.yaml"
    result = call("users", "add", str(file), name, "--password-stdin", stdin="long enough\n")
    assert result.exit_code == 1
    assert "no user can be called" in result.stderr or "255 characters" in result.stderr
    assert not file.exists()


def test_check_warns_of_files_that_everybody_may_write(tmp_path: Path) -> None:
    key, users = tmp_path / "one.key", tmp_path / "users.yaml"
    key.write_text("A" * 43)
    assert call("users", "add", str(users), "ann", "--password-stdin", stdin="number one\n").exit_code == 0
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        """
        gateway: {http: off}
        keys: {active: one, ring: {one: {file: one.key}}}
        scopes:
          edge:
            listen: [{bind: "127.0.0.1:5672", sasl: scram-sha-256, users: users.yaml}]
            access: [{who: ann, may: send, on: "a"}]
            addresses: [{match: a, direct: balanced}]
        """
    )
    key.chmod(0o600)
    (weak,) = call("check", str(policy)).stderr.splitlines()
    assert "the key is not random" in weak
    key.chmod(0o666)
    users.chmod(0o666)
    users.write_text("".join(line for line in users.read_text().splitlines(True) if "$secret" not in line))
    result = call("check", str(policy))
    assert result.exit_code == 0
    _, *warnings = result.stderr.splitlines()
    assert warnings == [
        f"warning: {users}: has no $secret: answers to unknown users change with every change of the file, "
        "which tells them from known ones; `scopegate users add` makes one",
        f"warning: {key}: can be written by every user of this machine; use chmod 600",
        f"warning: {users}: can be written by every user of this machine; use chmod 644",
    ]


def test_check_warns_of_certificates_that_nobody_accepts_and_of_a_file_without_users(tmp_path: Path) -> None:
    Authority(tmp_path).expired(file="old")
    (tmp_path / "old.key").chmod(0o600)
    users = tmp_path / "users.yaml"
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        """
        gateway: {http: off}
        scopes:
          edge:
            listen: [{bind: "127.0.0.1:5672", sasl: plain, users: users.yaml, tls: {cert: old.pem, key: old.key}}]
        """
    )
    users.write_text("{}\n")
    result = call("check", str(policy))
    assert result.exit_code == 0
    empty, expired = result.stderr.splitlines()[-2:]
    assert empty.startswith(f"warning: {users}: holds no user")
    assert expired.startswith(f"warning: {tmp_path / 'old.pem'}: the certificate of 'CN=localhost' expired on 20")
    users.write_text(" \n")
    result = call("check", str(policy))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(f"{users}:1:1: the users file is empty; {{}} says")


def test_check_warns_of_keys_of_the_ring_that_have_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.yaml"
    ring = "new: {env: NEW_KEY}, later: {env: LATER_KEY, until: '2999-01-01'}"
    old = "old: {env: OLD_KEY, until: '2026-01-02T03:04:00Z'}"
    keys = f"keys:\n  active: new\n  ring: {{{ring},\n    {old}}}"
    policy.write_text(f"gateway: {{http: off}}\n{keys}\nscopes: {{edge: {{listen: [{{bind: '127.0.0.1:5672'}}]}}}}\n")
    for name in ("NEW_KEY", "LATER_KEY", "OLD_KEY"):
        monkeypatch.setenv(name, call("keys", "new").stdout.splitlines()[0].partition("=")[2])
    result = call("check", str(policy))
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "expired" in line] == [
        f"warning: {policy}:5:32: keys.ring.old.until: expired on 2026-01-02 03:04 UTC: no response is "
        "verified with this key any more; remove it"
    ]


def test_check_warns_of_what_ends_soon_and_of_users_that_are_nowhere(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    assert call("users", "add", str(users), "alice", "--password-stdin", stdin="wonder-land-1865\n").exit_code == 0
    Authority(tmp_path).passing("localhost", 5 * 86_400 + 60, file="soon")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        """
        gateway: {http: off}
        scopes:
          edge:
            listen: [{bind: "127.0.0.1:5672", sasl: plain, users: users.yaml, tls: {cert: soon.pem, key: soon.key}}]
            addresses: [{match: q, direct: balanced}]
            access: [{who: [alice, bob], may: send, on: q}]
        """
    )
    result = call("check", str(policy))
    assert result.exit_code == 0
    assert f"warning: {tmp_path / 'soon.pem'}: the certificate of 'CN=localhost' expires in 5 days, on" in result.stderr
    nobody = "scopes.edge.access[0].who: no users file of this scope's listeners has the user bob"
    assert nobody in result.stderr
    assert "the user alice" not in result.stderr


def test_check_reads_the_certificates_of_sinks(tmp_path: Path) -> None:
    Authority(tmp_path).expired(file="old")
    (tmp_path / "old.key").chmod(0o644)
    policy = tmp_path / "policy.yaml"
    text = """
        gateway: {http: off, state: "redis://127.0.0.1:1/0"}
        kafka: {k: {bootstrap: "127.0.0.1:1"}}
        scopes:
          edge:
            addresses: [{match: e, kafka: k, topic: t, dead_letter: d}, {match: s, service: subscriptions, manager: m}]
            access: [{may: subscribe}]
            subscriptions:
              - name: m
                events: e
                sinks:
                  - {protocol: amqp, to: "amqps://a", tls: {ca: old.pem, cert: old.pem, key: old.key}}
    """
    policy.write_text(text)
    result = call("check", str(policy))
    assert result.exit_code == 0
    exposed, expired = result.stderr.splitlines()[-2:]
    assert exposed == f"warning: {tmp_path / 'old.key'}: can be read by every user of this machine; use chmod 600"
    assert expired.startswith(f"warning: {tmp_path / 'old.pem'}: the certificate of 'CN=localhost' expired on 20")
    (tmp_path / "old.pem").write_text("no certificate")
    result = call("check", str(policy))
    assert result.exit_code == 1
    assert f"{policy}:" in result.stderr
    assert "scopes.edge.subscriptions[0].sinks[0].tls: " in result.stderr


def test_users_are_not_added_to_what_is_no_users_file(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    file.write_text("- not users\n")
    result = call("users", "add", str(file), "ann", "--password-stdin", stdin="x\n")
    assert result.exit_code == 1
    assert file.read_text() == "- not users\n"
    assert call("users", "add", str(file), "ann", "--password-stdin", stdin="\n").exit_code == 1
    missing = str(tmp_path / "no" / "users.yaml")
    assert call("users", "add", missing, "ann", "--password-stdin", stdin="x\n").exit_code == 1


def test_a_password_is_asked_twice_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    result = call("users", "add", str(file), "ann", stdin="secret\nsecret\n")
    assert result.exit_code == 0
    assert "secret" not in result.output


def test_help_says_what_exit_codes_mean() -> None:
    for command in ("check", "explain", "run", "quickstart"):
        assert "Exit codes:" in call(command, "--help").stdout
    assert "Exit codes:" in call("--help").stdout
    assert call("--version").stdout == call("version").stdout == f"scopegate {__version__}\n"


def processor_time() -> float:
    """Seconds that children took: what else runs does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_version_in_a_process_of_its_own_is_quick_and_imports_little() -> None:
    code = "import sys; from gateway.cli.main import main; main(standalone_mode=False); print(*sys.modules)"
    best = 60.0
    for _ in range(3):
        before = processor_time()
        done = subprocess.run([sys.executable, "-c", code, "version"], capture_output=True, text=True, check=True)
        best = min(best, processor_time() - before)
    said, _, modules = done.stdout.partition("\n")
    assert said == f"scopegate {__version__}"
    assert {"pydantic", "proton", "ruamel.yaml", "asyncio"}.isdisjoint(modules.split())
    assert best < 0.3


@pytest.mark.row("X-8")
def test_a_wrong_policy_never_starts_a_gateway(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("scopes: {edge: {listen: [{bund: x}]}}\n")
    code = "from gateway.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{file}:1:27: scopes.edge.listen[0].bund: unknown key; did you mean bind?" in done.stderr


def test_an_output_that_is_full_is_one_sentence() -> None:
    """`>` into a full disk, which /dev/full is."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gateway.cli", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "the output cannot be written: No space left on device\n")
