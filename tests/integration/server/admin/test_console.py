"""The console in headless Chromium: a person logs in, looks at everything, and closes a link, by keyboard alone."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Iterator

import pytest

from tests.bench.running import idle
from tests.support.amqp import frames
from tests.support.amqp.peer import Peer
from tests.support.browser.window import Browser
from tests.support.cli.admin_port import DASH, OPS, AdminPort
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port, wait_until
from tests.support.project.parts import ROOT

PAGE = ROOT / "gateway/admin/console/page"
VIEWS = ("", "connections", "links", "kafka", "refusals", "policy", "explain")
HOSTILE = "chat/<img src=x onerror=alert(1)>"
PHONE, DESKTOP = (390, 844), (1440, 900)


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways) -> AdminPort:
    document = Document()
    document.relay()
    document.kafka("embedded", topics={"orders": 2})
    document.connector(free_port(), name="partner")
    return AdminPort(start_module_gateway, document, env={"SCOPEGATE_TEST_KEY": "5ec2e7" * 12}, ready=False)


@pytest.fixture(scope="module")
def browser(admin: AdminPort) -> Iterator[Browser]:
    """A browser whose person is logged in with the token that may operate."""
    with Browser() as found:
        found.window(*DESKTOP)
        found.open(f"{admin.base}/")
        found.wait_text("Log in", "dialog")
        found.type("a-wrong-token-0123456")
        found.press("Enter")
        found.wait_text("this token is not known", "dialog")
        found.run("document.querySelector('#token').select()")
        found.type(OPS)
        found.press("Enter")
        found.wait_text("operate", "#who")
        found.errors.clear()  # of the answers 401
        yield found


def visit(browser: Browser, view: str) -> None:
    """Show a view that is not shown."""
    browser.run(f"location.hash = '#/{view}'")
    title = {"": "Overview"}.get(view, view.partition("?")[0].partition("/")[0].capitalize())
    wait_until(lambda: browser.run("document.title").startswith(f"{title} – "), f"the view {view}")


def test_the_map_shows_what_is_down_and_why(browser: Browser) -> None:
    visit(browser, "")
    text = browser.wait_text("Connection refused", ".node.down")
    assert "down" in text
    assert "edge/partner" in text
    assert "topics of main" in browser.text(".map")
    browser.wait_text("up", ".column:last-child .node")
    lines = browser.run("[...document.querySelectorAll('.lines path')].map(line => line.getAttribute('class'))")
    assert lines.count("bad") == 1
    assert len(lines) == 3, "the relay, the topics and the connector"


def test_a_person_finds_a_waiting_link_and_closes_it_by_keyboard(browser: Browser, admin: AdminPort) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_sender(HOSTILE, 0)
        wait_until(lambda: admin.items("links", "--starved"), "a starving sender")
        visit(browser, "links?starved=true")
        shown = browser.wait_text("waiting for credit since", "main table")
        assert HOSTILE in shown, "what peers say is text"
        wait_until(lambda: focus_on(browser, "Close"), "the button by Tab")
        browser.press("Enter")
        browser.wait_text("Close link", "dialog[open]")
        browser.type("test of the console")
        browser.press("Enter")
        error = peer.until("detach", closed=True, error="amqp:link:detach-forced").error
        assert error["description"] == "closed by an operator of the gateway: test of the console"
        assert admin.gateway.wait_log("admin action", action="close link")["who"] == "token ops"
        browser.wait_text("No links.", "main")


def focus_on(browser: Browser, name: str) -> bool:
    """Go on by one; whether the focus is on what has this text."""
    browser.press("Tab")
    return bool(browser.run(f"document.activeElement.innerText === {json.dumps(name)}"))


def test_a_connection_has_its_links(browser: Browser, admin: AdminPort) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/room")
        (connection,) = admin.items("connections", "--user", "anonymous")
        visit(browser, "connections")
        browser.wait_text("anonymous", "main table")
        visit(browser, f"connections/{connection['id']}")
        browser.wait_text("chat/room", "main table")
        assert connection["container"] in browser.text(".facts")


def test_an_address_that_somebody_mistyped_shows_its_view(browser: Browser) -> None:
    visit(browser, "connections/%")
    browser.wait_text("Connection %", "main")
    visit(browser, "")


def test_refusals_lead_to_an_explanation(browser: Browser, admin: AdminPort) -> None:
    visit(browser, "refusals")
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach("refused", False, 0, target=frames.target("nowhere"))
        peer.until("detach", closed=True)
        browser.wait_text("no address rule matches", "main table")  # by the stream of changes
    browser.click("main table a")
    browser.wait_text("refused: amqp:not-found", "main")
    assert "anonymous wants to send to nowhere" in browser.text("main pre")


def test_the_policy_shows_what_a_reload_has_changed(browser: Browser, admin: AdminPort) -> None:
    visit(browser, "policy")
    browser.wait_text("It is the first one of this process.", "main")
    admin.document.scope()["addresses"].append({"match": "later/**", "direct": "balanced"})
    admin.gateway.reload(admin.document.text)
    browser.wait_text('"match": "later/**"', ".diff")
    assert "signs" in browser.text("main")
    wait_until(lambda: accepted(browser), "the answer to a check")


def accepted(browser: Browser) -> bool:
    """Ask for a check of the file; whether the answer of one is shown: another reload may have taken it away again."""
    browser.run("[...document.querySelectorAll('button')].find(each => each.innerText === 'Check the file').click()")
    return "A reload would accept the policy." in browser.text("main")


def test_every_view_fits_a_phone_and_a_desk_in_both_colours(browser: Browser) -> None:
    try:
        for width, height in (PHONE, DESKTOP):
            for dark in (False, True):
                browser.window(width, height, dark=dark)
                for view in VIEWS:
                    visit(browser, view)
                    wait_until(lambda: browser.run("document.querySelector('main section') !== null"), "content")
                    wide = browser.run("document.documentElement.scrollWidth")
                    assert wide <= width, f"{view} at {width}: {wide}"
                ground, ink = browser.run("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
                assert (light(ground) < light(ink)) == dark
    finally:
        browser.window(*DESKTOP)


def light(colour: str) -> int:
    """How light a colour like `rgb(1, 2, 3)` is."""
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))


@pytest.mark.parametrize("links", [2000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_links_come_in_pages(browser: Browser, admin: AdminPort, links: int) -> None:
    """10,000 take longer to attach, beside three other workers, than the whole test with 2,000."""
    with idle(admin.document.edge, 20, "chat/idle", links // 20):
        after, seen, seconds = "", list[str](), list[float]()
        while after is not None:
            begun = time.monotonic()
            page = admin.ask("GET", f"/links?limit=1000{after and f'&after={after}'}")[1]
            seconds.append(time.monotonic() - begun)
            seen += [each["id"] for each in page["items"]]
            after = page["next"]
        assert len(set(seen)) == len(seen) >= links
        assert max(seconds) < 5, seconds
        visit(browser, "")  # the view may show its second page
        visit(browser, "links?rule=chat%2F**")
        browser.wait_text("page 1, 50 rows", ".pager")
        first = browser.text("main tbody tr:first-child")
        browser.run("[...document.querySelectorAll('.pager button')].at(-1).click()")
        browser.wait_text("page 2, 50 rows", ".pager")
        assert browser.text("main tbody tr:first-child") != first
        assert browser.run("document.querySelectorAll('main tr').length") == 51


HOLD = """
(() => {
  const fetch = window.fetch;
  const later = (url, more, resolve) => async () => {
    const answer = await fetch(url, ...more);
    resolve(answer.clone());
    await answer.json();
  };
  window.held = [];
  window.fetch = (url, ...more) => String(url).includes("/links?")
    ? new Promise((resolve) => held.push(later(url, more, resolve))) : fetch(url, ...more);
  window.unhold = () => { window.fetch = fetch; };
})()
"""
"""Holds back the questions for links until `held` is called."""


def turn(browser: Browser, page: int) -> str:
    """Turn to the next page of links; the first row of that."""
    browser.run("[...document.querySelectorAll('.pager button')].at(-1).click()")
    browser.wait_text(f"page {page}, 50 rows", ".pager")
    return browser.text("main tbody tr:first-child td")


def test_a_late_answer_does_not_replace_the_page_that_was_turned_to(browser: Browser, admin: AdminPort) -> None:
    """It did, with the number of the new page, and the next one was counted twice."""
    with idle(admin.document.edge, 2, "chat/idle", 100):
        visit(browser, "links?direction=out")
        browser.wait_text("page 1, 50 rows", ".pager")
        browser.run(HOLD)
        wait_until(lambda: browser.run("held.length"), "the page to ask again")
        browser.run("unhold()")
        second = turn(browser, 2)
        browser.run("Promise.all(held.map((each) => each())).then(() => new Promise((done) => setTimeout(done, 0)))")
        assert browser.text("main tbody tr:first-child td") == second
        assert turn(browser, 3) != second


def test_the_map_counts_all_rules_of_a_scope(browser: Browser, admin: AdminPort) -> None:
    """Also those beyond the thousand that a list has."""
    rules = admin.document.scope()["addresses"]
    grown = admin.document.but()
    grown.scope()["addresses"] = [*rules, *({"match": f"many/{n}", "direct": "balanced"} for n in range(1100))]
    admin.gateway.reload(grown.text)
    visit(browser, "")
    browser.wait_text(f"and {1100 + len(rules) - 40:,} more rules", ".map")
    admin.gateway.reload(admin.document.text)


def test_nothing_comes_from_elsewhere_and_nothing_went_wrong(browser: Browser, admin: AdminPort) -> None:
    assert {url for url in browser.requests if not url.startswith(f"{admin.base}/")} <= {"about:blank"}
    browser.run("0")  # reads what it has reported until now
    mistyped = "connections/%25", "connection=%25"  # the answers 400, which may come when another view is shown
    assert [each for each in browser.errors if not any(name in each for name in mistyped)] == []


def test_the_page_is_for_everybody_and_lets_a_browser_load_nothing_else(admin: AdminPort) -> None:
    with admin.connection() as connection:
        for path in ("/", *(f"/console/{name}" for name in os.listdir(PAGE) if name != "index.html")):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, answer.headers["x-content-type-options"]) == (200, "nosniff"), path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert b"style=" not in body
            connection.request("GET", path, headers={"If-None-Match": answer.headers["etag"]})
            again = connection.getresponse()
            assert (again.status, again.read()) == (304, b"")
        for path, host, status in (("/", "rebound.example", 421), ("/console/../api.js", "localhost", 404)):
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (status, True)


def test_whoever_only_views_has_no_buttons_that_change(admin: AdminPort) -> None:
    with Browser() as browser:
        name, _, value = admin.log_in(DASH).partition("=")
        browser.send("Network.setCookie", name=name, value=value, url=admin.base, httpOnly=True, sameSite="Strict")
        browser.open(f"{admin.base}/#/policy")
        browser.wait_text("view", "#who")
        browser.wait_text("Policy in force", "main")
        assert "Reload" not in browser.text("main")
        browser.click("#who button")
        browser.wait_text("Log in", "dialog[open]")


def test_the_wheel_has_the_page() -> None:
    listed = (ROOT / "pyproject.toml").read_text()
    assert '"gateway.admin.console" = ["page/*"]' in listed
    assert not [path for path in PAGE.iterdir() if path.is_dir()]


def test_the_socket_serves_the_page_too(admin: AdminPort) -> None:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(admin.socket))
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, b"ScopeGate" in answer.read()) == (200, True)
    connection.close()
