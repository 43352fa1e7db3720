"""A transport that answers from a script, for what a real API server never says."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from typing_extensions import override

from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.transport import JSON, REQUEST_SECONDS, Params, Transport

Answer = Callable[[str, str, Any], Any]
"""(method, path, body) to a body, or raises."""


def written(path: str, body: Any) -> dict[str, Any]:
    """Answer a write: the object has a version, and the status that was sent."""
    made = {"metadata": {"name": "made", "resourceVersion": "9"}}
    is_status = path.partition("?")[0].endswith("/status")
    return made | {"status": body[-1]["value"]} if is_status else made


async def _nowhere() -> Access:
    return Access("http://nowhere.invalid")


class ScriptedTransport(Transport):
    """Requests are answered by `answer`; each watch yields the next of `streams`, then ends.

    One that is an error is raised once the watch is open.
    """

    def __init__(
        self, answer: Answer, streams: Sequence[list[dict[str, Any]] | Exception] = ()
    ) -> None:
        super().__init__(Credentials(_nowhere))
        self.answer = answer
        self.streams = list(streams)
        self.watches = 0

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        return json.dumps(self.answer(method, path, json.loads(body) if body else None)).encode()

    @override
    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        self.watches += 1
        yield []
        events = self.streams.pop(0) if self.streams else []
        if isinstance(events, Exception):
            raise events
        if events:
            yield [json.dumps(event).encode() for event in events]
