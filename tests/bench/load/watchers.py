"""Watches a gateway as a console, a dashboard and scripts do: `python -m tests.bench.load.watchers HTTP SOCKET`.

Eight streams of changes are read, status and links are asked for once a second, metrics every five seconds. It ends
when it is killed.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import sys
import threading
import time
import urllib.request

STREAMS = 8
ASKED = ("/status", "/rates", "/links?limit=50", "/links?order=rate", "/connections?limit=50")


def connect(path: str) -> http.client.HTTPConnection:
    """A connection to the admin API."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    return connection


def read(path: str) -> None:
    """Read one stream to its end."""
    connection = connect(path)
    connection.request("GET", "/api/v1/events")
    answer = connection.getresponse()
    while answer.readline():
        pass


def main(server: str, path: str) -> None:
    """Watch until killed."""
    for _ in range(STREAMS):
        threading.Thread(target=read, args=(path,), daemon=True).start()
    admin = connect(path)
    for second in itertools.count():
        time.sleep(1)
        if second % 5 == 0:
            urllib.request.urlopen(f"http://{server}/metrics", timeout=60).read()
        for asked in ASKED:
            admin.request("GET", f"/api/v1{asked}")
            admin.getresponse().read()


if __name__ == "__main__":
    main(*sys.argv[1:])
