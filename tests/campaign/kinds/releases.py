"""Changes of the operator's release while a job lives: another one reads what was stored."""

import asyncio
from contextlib import suppress

from tests.campaign.ground import Ground
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault
from tests.campaign.releases import earlier_operator

_WHILE_SECONDS = 4.0
_PATIENCE_SECONDS = 25.0
"""An earlier release may come to the end with fewer writes than today's."""


async def _downgraded(ground: Ground, _: Fault) -> None:
    """The earlier operator takes over for a while, then today's goes on."""
    async with earlier_operator(ground):
        await asyncio.sleep(_WHILE_SECONDS)


async def _upgraded(ground: Ground, fault: Fault) -> None:
    """The earlier operator begins with the job, today's goes on from its nth write."""
    async with earlier_operator(ground):
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await ground.moments.reached(fault.at)


KINDS: dict[str, Kind] = {
    "operator_downgraded": Kind(_downgraded, is_in_ci=False),
    "operator_upgraded": Kind(_upgraded, is_from_start=True, is_in_ci=False),
}
