"""The files of the console's page, with headers that let a browser run and load nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER: Final = Path(__file__).with_name("page")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-cache",
}


def page_routes() -> list[Route]:
    """The routes of the page, at `/`, and of its files, at `/console/…`."""
    files = {path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES}
    return [
        Route("/" if name == "index.html" else f"/console/{name}", _serve(path), methods=["GET"])
        for name, path in files.items()
    ]


def _serve(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    headers = {**_HEADERS, "etag": f'"{hashlib.sha256(content).hexdigest()[:20]}"'}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[path.suffix])

    return answer
