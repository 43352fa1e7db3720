"""A transport that answers from a script, for what a real API server never says."""

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from typing_extensions import override

from spotrun.kube.access import Access, Credentials
from spotrun.kube.transport import JSON, REQUEST_SECONDS, Params, Transport

Answer = Callable[[str, str, Any], Any]
"""(method, path, body) to a body, or raises."""


async def _nowhere() -> Access:
    return Access("http://nowhere.invalid")


class ScriptedTransport(Transport):
    """Requests are answered by `answer`; each watch yields the next of `streams`, then ends."""

    def __init__(self, answer: Answer, streams: list[list[dict[str, Any]]] | None = None) -> None:
        super().__init__(Credentials(_nowhere))
        self.answer = answer
        self.streams = streams or []
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
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        return json.dumps(self.answer(method, path, json.loads(body) if body else None)).encode()

    @override
    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        self.watches += 1
        if self.streams and (events := self.streams.pop(0)):
            yield [json.dumps(event).encode() for event in events]
