"""The faults that may happen between a client and the API server, and when."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal[
    # requests
    "reply",  # answer `status` without asking the API server
    "drop",  # close the connection before the request is passed on
    "lose_answer",  # pass it on, then close the connection: done, and the client never learns
    "replace_answer",  # pass it on, then answer `status`: the same with an HTTP error
    "hold",  # pass it on after `gate` opens
    "crash_before",  # call `on_crash` before it is passed on (which it is not)
    "crash_after",  # call `on_crash` after the API server did it
    "stale_list",  # answer a list with what `remember` kept: time travel
    # watch streams
    "swallow",  # lose matching events
    "duplicate",  # deliver matching events twice
    "replay",  # deliver all earlier events of the stream again after a matching one
    "bookmarks",  # instead of matching events say that there were none; when `gate` opens, cut
    "stall",  # from a matching event on (or at once) deliver nothing until `gate` opens
    "cut",  # close the stream after a matching event (or at once)
    "error",  # send an in-stream ERROR with `status` (after a matching event, or at once)
]

STREAM_ACTIONS = frozenset({"swallow", "duplicate", "replay", "bookmarks", "stall", "cut", "error"})

FOR_EVER = -1

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Rule:
    """One fault: which requests or events it strikes, from the how-manieth on and how often."""

    action: Action
    verb: str = ".*"  # of get, list, watch, create, update, patch, delete
    path: str = ".*"
    match: Callable[[Any], bool] | None = None  # the body of a request, or an event of a stream
    query: Callable[[Mapping[str, str]], bool] | None = None  # the query of a request
    nth: int = 1
    times: int = 1  # FOR_EVER: until the rule is removed
    status: int = 500
    retry_after: int | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    struck: asyncio.Event = field(default_factory=asyncio.Event)  # has fired `times` times
    hits: int = 0
    fired: int = 0

    @property
    def at_once(self) -> bool:
        """True for what strikes an open stream without waiting for an event."""
        return self.match is None and self.action in {"stall", "cut", "error"}

    def concerns(self, verb: str, path: str) -> bool:
        """True where the rule is about such requests."""
        return bool(re.fullmatch(self.verb, verb) and re.search(self.path, path))

    def strikes(self, content: Any) -> bool:
        """Count a request or an event, and say whether it is struck."""
        if self.match is not None and not self.match(content):
            return False
        self.hits += 1
        if self.hits < self.nth or (self.times != FOR_EVER and self.fired >= self.times):
            return False
        self.fired += 1
        if self.times in {FOR_EVER, self.fired}:
            self.struck.set()
        return True


def failure(code: int, retry_after: int | None = None) -> dict[str, Any]:
    """A `v1.Status` as the API server sends it."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected",
        "reason": _REASONS.get(code, "Unknown"),
        "code": code,
    }
    if retry_after is not None:
        status["details"] = {"retryAfterSeconds": retry_after}
    return status


def event_is(kind: str, name: str) -> Callable[[Any], bool]:
    """Match an event of a stream by type and object name."""
    return lambda event: event["type"] == kind and event["object"]["metadata"].get("name") == name
