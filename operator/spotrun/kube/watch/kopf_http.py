"""An HTTP answer without a network: the part of `aiohttp.ClientResponse` that kopf uses."""

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self, cast

import aiohttp
import msgspec


class Answer:
    """One answer: a document, or a stream of lines."""

    def __init__(
        self,
        status: int,
        document: object = None,
        *,
        stream: AsyncGenerator[bytes, None] | None = None,
    ) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self.closed = False
        self._document = document
        self._stream = stream

    @property
    def content(self) -> Self:
        """The answer itself, because it has `iter_chunked`."""
        return self

    def iter_chunked(self, _: int) -> AsyncGenerator[bytes, None]:
        """Return the stream; a chunk ends with a line."""
        assert self._stream is not None, "only watches are read in chunks"
        return self._stream

    async def json(self) -> object:
        """Return the document."""
        return self._document

    async def text(self) -> str:
        """Return the document as it would be sent."""
        return msgspec.json.encode(self._document).decode()

    def raise_for_status(self) -> None:
        """Raise the error that aiohttp raises for this status."""
        if self.status >= 400:
            raise aiohttp.ClientResponseError(cast("Any", None), (), status=self.status)

    def close(self) -> None:
        """Close the answer."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
