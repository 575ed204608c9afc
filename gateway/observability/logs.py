"""Logging: one structlog configuration for the process; readable on a terminal, JSON lines elsewhere.

Values may come from a peer. Therefore they are cut, control characters are escaped (a line break in an address must not
forge a line), and values under keys that may have secrets are hidden.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TextIO, cast

from gateway.observability.plain_structlog import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

Logger = structlog.typing.FilteringBoundLogger
Style = Literal["auto", "console", "json"]

HIDDEN: Final = "[hidden]"
MAX_TEXT: Final = 512
MAX_TRACEBACK: Final = 8192
MAX_ITEMS: Final = 32
MAX_DEPTH: Final = 4

_SECRET: Final = (
    "password", "passwd", "passphrase", "secret", "token", "cookie", "credential", "authorization",
    "private", "body", "payload", "proof", "verifier", "salt",
)  # fmt: skip
_OWN_KEYS: Final = frozenset({"timestamp", "level", "logger"})


def configure_logs(level: str = "info", style: Style = "auto", stream: TextIO | None = None) -> None:
    """Set up logging for the process; `auto` is `console` when the stream is a terminal, else `json`."""
    out = sys.stderr if stream is None else stream
    console = style == "console" or (style == "auto" and out.isatty())
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _named,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            clean,
            _renderer(console, out.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_StandardLibraryHandler()]
    root.setLevel(max(threshold, logging.WARNING))


def get_logger(name: str) -> Logger:
    """A logger whose lines have `logger=name`; it may be created before `configure_logs`."""
    return cast(Logger, structlog.get_logger(logger_name=name))


def clean(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A structlog processor that hides secrets, and cuts and escapes all other values."""
    for key, value in event.items():
        if key == "exception":
            event[key] = "\n".join(map(escape, str(value)[-MAX_TRACEBACK:].split("\n")))
        elif key not in _OWN_KEYS:
            event[key] = _clean(key, value, MAX_DEPTH)
    return event


def _named(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # structlog reserves the argument name `logger`.
    event["logger"] = event.pop("logger_name", "")
    return event


def escape(text: str) -> str:
    """`text` with everything that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _clean(key: str, value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        # Numbers may be logged under any key: no secret is a number.
        return value
    if any(word in key.lower() for word in _SECRET):
        return HIDDEN
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth and isinstance(value, Mapping):
        pairs = list(value.items())[:MAX_ITEMS]
        return {_text(str(name)): _clean(str(name), item, depth - 1) for name, item in pairs}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_clean(key, item, depth - 1) for item in list(value)[:MAX_ITEMS]]
    return _text(str(value))


def _text(value: str) -> str:
    if len(value) <= MAX_TEXT:
        return escape(value)
    return f"{escape(value[:MAX_TEXT])}… ({len(value)} characters)"


def _renderer(console: bool, colors: bool) -> Processor:
    if not console:
        return structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain, pad_event_to=24)


class _StandardLibraryHandler(logging.Handler):
    """Writes what libraries (asyncio, uvicorn) log with the standard library to the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            log = get_logger(record.name)
            log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
        except Exception:
            self.handleError(record)
