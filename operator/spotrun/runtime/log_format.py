"""Log lines as text or JSON; those about a job name it and its world's number."""

import json
import logging
import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from typing_extensions import override

Format = Literal["text", "json"]


@dataclass
class LogContext:
    """The job that the present task works on."""

    job: str  # namespace/name
    world_number: int | None = None


_context: ContextVar[LogContext | None] = ContextVar("spotrun_log_context", default=None)


def about(job: str) -> LogContext:
    """Mark everything that this task logs from now on with the name of a job."""
    context = LogContext(job)
    _context.set(context)
    return context


def set_up(style: Format, level: int) -> None:
    """Send every log line of the process to standard error, kopf's and aiohttp's among them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(True)
    if level > logging.DEBUG:
        # They log their own start and end, and each probe that was answered.
        logging.getLogger("kopf").setLevel(logging.ERROR)
        logging.getLogger("aiohttp.access").setLevel(logging.ERROR)


# The operator logs no secrets, but an error of a library may quote its input.
_SECRETS = re.compile(
    r"(?<=bearer )[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"  # a JSON web token
    r"|(?<=PRIVATE KEY-----).*?(?=-----END)",
    re.IGNORECASE | re.DOTALL,
)


def _plain(text: str) -> str:
    """Escape characters that would break a line or control a terminal, as Python does."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _clean(text: str) -> str:
    return _SECRETS.sub("(left out)", text)


class TextLines(logging.Formatter):
    """One line for people; only tracebacks take more."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        context = _context.get()
        where = "" if context is None else f" [{context.job}{_suffix(context)}]"
        # Messages contain texts of other programs: one message is one line in any case.
        message = _plain(record.getMessage())
        line = f"{_time(record)} {record.levelname:7} {record.name}{where}: {message}"
        # So do tracebacks: each line is indented, so that it does not look like a line of ours.
        trace = [f"  {_plain(part)}" for part in _trace(self, record).split("\n") if part]
        return _clean("\n".join((line, *trace)))


class JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        context = _context.get()
        content: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _clean(record.getMessage()),
        }
        if context is not None:
            content["job"] = context.job
            if context.world_number is not None:
                content["worldNumber"] = context.world_number
        trace = _trace(self, record)
        if trace:
            content["trace"] = _clean(trace)
        return json.dumps(content)


def _suffix(context: LogContext) -> str:
    return "" if context.world_number is None else f" world {context.world_number}"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)
