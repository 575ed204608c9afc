"""Requests of the command line to a manager's API; blocking."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request

import click

from gateway.http.opener import opener

Parsed: TypeAlias = Any
"""Parsed JSON of an answer; its structure is known, since it comes from a gateway."""
Document = dict[str, Parsed]
PASSWORD: Final = "SCOPEGATE_PASSWORD"  # noqa: S105  the name of a variable
_TIMEOUT: Final = 30.0
_PAGE: Final = 500
_NEXT: Final = re.compile(r'<([^>]*)>; rel="next"')


class ApiRefused(Exception):
    """The gateway's error answer."""

    def __init__(self, status: int, document: object) -> None:
        """`document` is the error object, or a substitute if there is none."""
        body = document if isinstance(document, dict) else {}
        mistakes = [f"{each['field'] or 'object'}: {each['message']}" for each in body.get("mistakes", ())]
        super().__init__("; ".join(mistakes) or str(body.get("message", status)))
        self.status: Final = status


class ManagerClient(NamedTuple):
    """The URL of a manager, and the user; the password comes from the environment."""

    url: str
    user: str | None
    ca: Path | None

    def request(self, method: str, path: str = "", body: object = None) -> Parsed:
        """The document of the answer; raises ApiRefused, or ends the command if there is no answer."""
        return self._send(method, self.url.rstrip("/") + path, body)[0]

    def _send(self, method: str, url: str, body: object = None) -> tuple[Parsed, str | None]:
        """The document, and the path of the next page."""
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(url, data, self._headers(), method=method)  # noqa: S310  the operator says where
            with self._opener().open(request, timeout=_TIMEOUT) as answer:
                content, link = answer.read(), _NEXT.search(answer.headers.get("link", ""))
                return json.loads(content) if content else None, None if link is None else link[1]
        except HTTPError as error:
            raise ApiRefused(error.code, _document(error.read())) from None
        except (URLError, OSError, ValueError) as error:
            fail(f"no answer from {self._public_url}: {getattr(error, 'reason', error)}")

    def objects(self) -> Iterator[Document]:
        """All subscriptions that the user may see."""
        page: str | None = f"{self.url.rstrip('/')}?limit={_PAGE}"
        while page is not None:
            found, following = self._send("GET", page)
            yield from found or ()
            page = None if following is None else _on_same_host(page, following)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if self.user is not None:
            login = f"{self.user}:{os.environ.get(PASSWORD, '')}"
            headers["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        return headers

    def _opener(self) -> OpenerDirector:
        trusted = HTTPSHandler(context=ssl.create_default_context(cafile=self.ca))
        return opener(urlsplit(self.url).hostname or "", _NoRedirect, trusted)

    @property
    def _public_url(self) -> str:
        """The URL without a user and a password in it."""
        try:
            url = urlsplit(self.url)
        except ValueError:
            return "that URL"
        return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the password is for the host that the user named, and for no other."""

    def redirect_request(self, *_: object) -> None:
        """The answer is an error, with its status."""


def _on_same_host(page: str, following: str) -> str:
    """The next page, whose path and query the answer gives; the host stays the one that the user named."""
    there = urlsplit(urljoin(page, following))
    return urlunsplit(urlsplit(page)._replace(path=there.path, query=there.query))


def item(id: str) -> str:
    """The path of a subscription below its collection."""
    return "/" + quote(id, safe="")


def _document(content: bytes) -> Parsed:
    try:
        return json.loads(content)
    except ValueError:
        return None


def fail(message: str) -> NoReturn:
    """Print a message on stderr and exit with code 1."""
    click.echo(message, err=True)
    sys.exit(1)
