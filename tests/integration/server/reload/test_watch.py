"""Files that the policy names are watched as the policy is: users, certificates, secrets, also behind links."""

from __future__ import annotations

from pathlib import Path

from tests.integration.server.reload.test_logins import revoked, scram, users_file
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways

RELOADED, REJECTED = "policy reloaded", "policy reload rejected, keeping the current policy"
CHANGED = "changed file"


def serving(start: Gateways, users: Path) -> tuple[Document, Gateway]:
    """A gateway whose listener takes the users of a file."""
    document = Document()
    document.scope()["listen"][0] |= {"sasl": ["scram-sha-256"], "users": str(users)}
    return document, start(document.text)


def test_a_user_who_is_removed_is_out_without_a_signal(start_gateway: Gateways, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users_file(users, bob="b", carol="c")
    document, gateway = serving(start_gateway, users)
    bob = scram(document.edge, "bob", "b")
    before = len(gateway.log())
    users_file(users, carol="c")
    revoked(bob)
    line = gateway.wait_log(RELOADED, after=before, reason=CHANGED)
    assert line["changed"] == [str(users)]
    assert line["logins_revoked"] == 1


def test_a_link_that_points_elsewhere_is_a_change(start_gateway: Gateways, tmp_path: Path) -> None:
    """As Kubernetes replaces a mounted secret: the name stays, the folder behind it is another one."""
    for name, password in (("one", "old"), ("two", "new")):
        (tmp_path / name).mkdir()
        users_file(tmp_path / name / "users.yaml", bob=password)
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "users.yaml").symlink_to("data/users.yaml")
    document, gateway = serving(start_gateway, tmp_path / "users.yaml")
    before = len(gateway.log())
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "data")
    gateway.wait_log(RELOADED, after=before, reason=CHANGED)
    scram(document.edge, "bob", "new").close()


def test_a_folder_that_is_replaced_whole_is_read_at_a_reload(start_gateway: Gateways, tmp_path: Path) -> None:
    """As systemd renews a service's credentials before it sends SIGHUP (RefreshOnReload=credentials)."""
    folder, fresh = tmp_path / "credentials", tmp_path / "fresh"
    for place, password in ((folder, "old"), (fresh, "new")):
        place.mkdir()
        users_file(place / "users.yaml", bob=password)
    document, gateway = serving(start_gateway, folder / "users.yaml")
    before = len(gateway.log())
    folder.rename(tmp_path / "gone")
    fresh.rename(folder)
    gateway.hup(document.text)
    gateway.wait_log(RELOADED, after=before)
    scram(document.edge, "bob", "new").close()


def test_a_broken_file_is_reported_once_and_taken_when_it_is_whole(start_gateway: Gateways, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users_file(users, bob="b")
    document, gateway = serving(start_gateway, users)
    before = len(gateway.log())
    (tmp_path / "broken").write_text("bob: [\n")
    (tmp_path / "broken").replace(users)  # in one step: half a file would be reported, too
    assert gateway.wait_log(REJECTED, after=before, reason=CHANGED)["changed"] == [str(users)]
    middle = len(gateway.log())
    users_file(users, bob="b", dora="d")
    gateway.wait_log(RELOADED, after=middle, reason=CHANGED)
    scram(document.edge, "dora", "d").close()
    assert [line["event"] for line in gateway.log()[before:]].count(REJECTED) == 1


def test_the_log_says_which_version_of_the_policy_is_in_force(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    first = gateway.wait_log("serving")["digest"]
    again = gateway.reload(document.text)["digest"]
    document.scope()["addresses"].append({"match": "more", "direct": "balanced"})
    other = gateway.reload(document.text)["digest"]
    assert first == again != other
    assert len(first) == len(other) == 12
