"""A person at a browser: headless Chromium, steered over its DevTools protocol, that notes requests and errors."""

from __future__ import annotations

import base64
import itertools
import json
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import websocket

from tests.support.browser.chromium import FLAGS
from tests.support.gateway.process import PATIENCE, Process, fresh_folder, wait_until
from tests.support.project.commands import program

_KEYS = {"Enter": 13, "Tab": 9, "Escape": 27}


class Browser:
    """One window; `requests` are the URLs it has asked for, `errors` what it reported of scripts and of the CSP."""

    def __init__(self) -> None:
        self._profile = fresh_folder("browser")
        where = ("--remote-debugging-port=0", f"--user-data-dir={self._profile}", "about:blank")
        self._process = Process("chromium", [program("chromium"), *FLAGS, *where])
        self._ids = itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
        place = wait_until(self._place, "the browser's debugging port")
        self._socket = websocket.create_connection(place, timeout=PATIENCE, suppress_origin=True)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def _place(self) -> str | None:
        """The address of the window."""
        file = self._profile / "DevToolsActivePort"
        if not file.exists() or not (text := file.read_text()).strip():
            return None
        port = text.split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as response:
            pages = [each for each in json.load(response) if each["type"] == "page"]
        return str(pages[0]["webSocketDebuggerUrl"]) if pages else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()
        self._process.discard()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['source']}: {params['entry']['text']} {params['entry'].get('url')}")

    def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window, and the colours that its person prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page."""
        self.send("Page.navigate", url=url)
        wait_until(lambda: self.run("document.readyState") == "complete", f"{url} to load")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """The visible text of an element; empty if there is none."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText || ''"))

    def wait_text(self, text: str, selector: str = "body") -> str:
        """Wait until an element shows a text; returns all that it showed then."""

        def shown() -> str:
            return found if text in (found := self.text(selector)) else ""

        return wait_until(shown, f"{text!r} in {selector}")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        more = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector: str) -> None:
        """Click an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, path: Path) -> None:
        """A picture of the window as a PNG."""
        found = self.send("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))
