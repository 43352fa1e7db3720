"""Refusals to agents: a status and a sentence."""

import math
from collections.abc import Mapping

SERVER: Mapping[str, str] = {"Server": "spotrun"}  # aiohttp would send its own version


class Refused(Exception):  # noqa: N818 - it is an answer, not a fault
    """The request is not served; the message says why, and where or when to try again."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        leader: str | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.leader = leader
        # Clients without a valid token need a new connection to try again, and these are limited.
        self.close = close or status in {401, 403}
        self.headers: Mapping[str, str] = (
            {"Retry-After": str(max(1, math.ceil(retry_after_seconds)))}
            if retry_after_seconds is not None
            else {}
        )
