"""The user's own client, for whom an API server that is away comes back."""

import asyncio
from collections.abc import Mapping

import aiohttp
from typing_extensions import override

from devcluster.client import JSON, ApiError, Client, Manifest

_TRIES = 100
_PAUSE_SECONDS = 0.2


class PatientClient(Client):
    """Asks again where there is no answer."""

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        for tried in range(_TRIES):
            try:
                return await super().request(
                    method, path, body=body, params=params, content_type=content_type, accept=accept
                )
            except aiohttp.ClientError:
                pass
            except ApiError as error:
                if tried and (method, error.status) in {("POST", 409), ("DELETE", 404)}:
                    return {}  # it was done the first time, and the answer got lost
                if error.status < 500:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)
        raise ConnectionError(f"nobody has answered {method} {path}")
