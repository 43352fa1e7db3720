"""HTTP requests to the API server: every failure becomes one of our error classes."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Self

import aiohttp

from spotrun.kube.clock import boot_seconds
from spotrun.kube.errors import Ambiguous, KubeError, Retryable, Silent, refusal
from spotrun.kube.rest.access import Access, AccessError, Credentials
from spotrun.kube.rest.connector import Connector

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""Asks for the metadata of an object alone: for a worker's pod that is less than half of it."""

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 65.0
"""The API server gives up on a request after 60 s and says so; this is long enough to get that."""

_READ_BUFFER = 2 * 2**20  # one read takes a line of a watch: an object may have 1.5 MB (in etcd)

Params = Mapping[str, str]


class Transport:
    """One pool of connections; to be used as `async with Transport(...) as transport`.

    `on_date` gets the Date of each answer, and the time when its request was sent.
    """

    def __init__(self, credentials: Credentials, *, user_agent: str = "spotrun") -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self.on_date: Callable[[str | None, float], None] = lambda _date, _sent_at: None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=Connector(),
            # Kubernetes sets no cookies, and a cookie jar costs time in every request.
            cookie_jar=aiohttp.DummyCookieJar(),
            # To compress lists costs the API server more than the cluster's network gains.
            skip_auto_headers=("Accept-Encoding",),
            headers={"User-Agent": self._user_agent, "Accept": JSON},
            read_bufsize=_READ_BUFFER,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

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
        """Send one request and return its answer's body; raises KubeError.

        If the answer to a write was lost, the error is Ambiguous, except for a dry run.
        """
        write = method != "GET" and "dryRun" not in (params or {})
        limits = aiohttp.ClientTimeout(total=timeout_seconds, connect=CONNECT_SECONDS)
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        sent_at = boot_seconds()
        with _lost(method, path, write=write):
            async with self._open(
                method, path, params=params, limits=limits, headers=headers, body=body
            ) as response:
                answer = await response.read()
        self.on_date(response.headers.get("Date"), sent_at)
        if response.status >= 300:
            raise _refusal(response, answer, write=write)
        return answer

    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the complete lines of an endless answer as they come, several at a time.

        The first batch is empty and says that the stream is open. Ends with the stream; raises
        Silent when the server sent nothing for `silence_seconds`.
        """
        limits = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_read=silence_seconds
        )
        with _lost("GET", path, write=False):
            async with self._open("GET", path, params=params, limits=limits) as response:
                if response.status >= 300:
                    raise _refusal(response, await response.read(), write=False)
                try:
                    yield []
                    async for lines in _lines(response.content):
                        yield lines
                except aiohttp.SocketTimeoutError as error:
                    raise Silent(
                        f"the API server sent nothing for {silence_seconds:g} s"
                    ) from error
                finally:
                    _abort(response)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Params | None,
        limits: aiohttp.ClientTimeout,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a request; after a 401 try once more, with credentials read again."""
        access = await self._credentials.current()
        for attempt in (1, 2):
            async with self._http.request(
                method,
                access.server + path,
                params=params,
                data=body,
                headers={**(headers or {}), **_authorization(access)},
                timeout=limits,
                allow_redirects=False,  # a redirect leads to a login page, not to the API server
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_name,
                proxy=access.proxy,
            ) as response:
                if response.status != 401 or attempt == 2:
                    yield response
                    return
            access = await self._credentials.replace(access)

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("a Transport can be used only inside `async with`")
        return self._session


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[list[bytes], None]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        if lines:
            yield lines


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close a connection whose answer has not ended: TLS would wait until the other side closes."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


@contextmanager
def _lost(method: str, path: str, *, write: bool) -> Iterator[None]:
    """Turn errors of connections into ours."""
    try:
        yield
    except AccessError as error:
        raise Retryable(f"{method} {path} was not sent: {error}") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Retryable(f"{method} {path} was not sent: {_message(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        kind = Ambiguous if write else Retryable
        raise kind(f"{method} {path} got no answer: {_message(error)}") from error


def _message(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # The error's own text contains the TLS context as an object at a memory address.
        return f"cannot connect to {error.host}:{error.port}: {error.os_error}"
    return str(error) or type(error).__name__


def _authorization(access: Access) -> dict[str, str]:
    return {"Authorization": access.authorization} if access.authorization else {}


def _refusal(response: aiohttp.ClientResponse, body: bytes, *, write: bool) -> KubeError:
    retry_after = response.headers.get("Retry-After")
    return refusal(response.status, body, write=write, retry_after=retry_after)
