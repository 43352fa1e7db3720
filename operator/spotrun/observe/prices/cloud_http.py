"""JSON from clouds over HTTP, limited in size, time and host."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import msgspec

from spotrun.observe.prices.live import CloudUnavailableError

T = TypeVar("T")

_MOST_BYTES = 16 * 2**20
"""The largest page that is read: a hundred prices are 70 kB, and 5,000, the most that any cloud
sends, 10 MB."""
_MOST_SECONDS = aiohttp.ClientTimeout(total=30, sock_connect=5)


@asynccontextmanager
async def cloud_session(*, by_proxy: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    """Open connections for one answer, through the proxy that the environment names."""
    async with aiohttp.ClientSession(
        timeout=_MOST_SECONDS, trust_env=by_proxy, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield session


async def get_json(
    session: aiohttp.ClientSession,
    url: str,
    kind: type[T],
    *,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> T:
    """Read one answer; raises CloudUnavailableError if there is none, or none that can be read."""
    try:
        async with session.get(
            url,
            params=params,
            headers=headers,
            allow_redirects=False,  # a login page is no price list
        ) as response:
            body = await _read(response)
            if response.status != 200:
                answered = f"{response.url.host} answers {response.status}"
                raise CloudUnavailableError(f"{answered}: {body[:200].decode(errors='replace')}")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        words = str(error) or type(error).__name__
        raise CloudUnavailableError(f"no answer ({words})") from error
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:  # ValidationError is one
        raise CloudUnavailableError(f"the answer is no list of prices ({error})") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _MOST_BYTES:
            raise CloudUnavailableError(f"the answer has more than {_MOST_BYTES} bytes")
        parts.append(chunk)
    return b"".join(parts)
