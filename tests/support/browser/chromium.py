"""A page as a browser shows it: headless Chromium, without network access that we do not see."""

from __future__ import annotations

import contextlib
import html
import json
import re
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.support.gateway.process import fresh_folder
from tests.support.project.commands import program

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--no-first-run", "--hide-scrollbars", "--disable-sync", "--no-default-browser-check",
)  # fmt: skip
_MEASURE = """
const page = document.querySelector('iframe').contentDocument, root = page.documentElement;
const box = each => { const at = each.getBoundingClientRect(); return [at.left, at.top, at.right, at.bottom]; };
const right = Math.max(...[...page.querySelectorAll('body *')].map(each => each.getBoundingClientRect().right));
const plots = [...page.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')];
  const within = at => at.left >= box.left - 1 && at.right <= box.right + 1;
  const inside = text => within(text.getBoundingClientRect());
  return {
    label: svg.getAttribute('aria-label'), width: box.width, height: box.height, left: box.left, right: box.right,
    texts: texts.map(text => text.textContent.trim()),
    smallest: Math.min(...texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale)),
    largest: Math.max(...texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale)),
    outside: texts.filter(text => !inside(text)).map(text => text.textContent),
    marks: svg.querySelectorAll('path').length,
    colours: [...new Set(texts.map(text => getComputedStyle(text).fill))],
  };
});
const found = {
  width: root.clientWidth, scroll: root.scrollWidth, right: right, plots: plots,
  background: getComputedStyle(page.body).backgroundColor, ink: getComputedStyle(page.body).color,
  scripts: page.scripts.length, text: page.body.innerText,
  tables: [...page.querySelectorAll('table')].map(each => each.rows.length),
  rows: [...page.querySelectorAll('table.wide tbody tr')].map(row => [...row.cells].map(box)),
  tiles: [...page.querySelectorAll('dl.tiles div')].map(box), cards: [...page.querySelectorAll('figure')].map(box),
};
document.querySelector('iframe').remove();
document.querySelector('pre').textContent = JSON.stringify(found);
"""


class Proxy:
    """Where the browser's requests go: nowhere, but they are seen."""

    OWN = re.compile(rb"\b(google|googleapis|gstatic|gvt1)\.com\b")
    """What the browser asks for by itself, whatever page it shows."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                threading.Thread(target=self._hear, args=(peer,), daemon=True).start()

    def _hear(self, peer: socket.socket) -> None:
        """Keep the first line; a browser opens connections that it does not use, or not before it ends."""
        with peer, peer.makefile("rb") as said, contextlib.suppress(OSError):
            line = said.readline()
            if line.endswith(b"\n"):
                self.requests.append(line.rstrip(b"\r\n"))

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


def chromium(page: Path, *options: str, proxy: Proxy | None = None) -> str:
    """Open a page; return what the browser prints."""
    profile = fresh_folder("chromium")
    way = () if proxy is None else (f"--proxy-server=http://{proxy.place}", "--proxy-bypass-list=<-loopback>")
    command = [program("chromium"), *FLAGS, f"--user-data-dir={profile}", *way, *options, page.resolve().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def measured(page: Path, width: int, *options: str, proxy: Proxy | None = None) -> Any:
    """What a window of that width shows of a page: its own scripts cannot run, so a frame around it looks."""
    frame = page.with_name(f"frame-{width}.html")
    source = html.escape(page.read_text(), quote=True)
    style = f"border:0;width:{width}px;height:844px"
    script = f"<script>onload = () => {{ {_MEASURE} }}</script>"
    shown = f'<iframe srcdoc="{source}" style="{style}"></iframe><pre></pre>'
    frame.write_text(f'<!DOCTYPE html><meta charset="utf-8">{shown}{script}')
    printed = chromium(frame, "--dump-dom", "--window-size=1400,1000", *options, proxy=proxy)
    return json.loads(html.unescape(printed.split("<pre>")[1].split("</pre>")[0]))
