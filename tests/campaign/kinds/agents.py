"""Faults of agents, and of the disks that they save on."""

import asyncio
from dataclasses import replace

from spotrun.wire import write_report
from tests.campaign.agents import FaultyAgent
from tests.campaign.ground import Ground
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault

_FROZEN_SECONDS = 5.0
_FULL_SECONDS = 3.0
_FULL = "step-100 is not saved: [Errno 28] No space left on device"


def _agent(ground: Ground, fault: Fault) -> FaultyAgent | None:
    agents = ground.play.living()
    return agents[fault.target % len(agents)] if agents else None


async def _frozen(ground: Ground, fault: Fault) -> None:
    agent = _agent(ground, fault)
    if agent is not None:
        agent.freeze()
        await asyncio.sleep(_FROZEN_SECONDS)
        agent.thaw()


async def _slow(ground: Ground, fault: Fault) -> None:
    """An agent stops for half a second again and again."""
    agent = _agent(ground, fault)
    for _ in range(4 if agent is not None else 0):
        assert agent is not None
        agent.freeze()
        await asyncio.sleep(0.5)
        agent.thaw()
        await asyncio.sleep(0.1)


async def _lying(ground: Ground, fault: Fault) -> None:
    """An agent says that it is in a world to come, and that all others are lost."""
    agent = _agent(ground, fault)
    if agent is not None:
        lie = replace(agent.report, arrived=agent.report.arrived + 7, suspects=(0, 1, 2))
        await agent.say(write_report(lie))
        agent.suspect()


async def _replaying(ground: Ground, fault: Fault) -> None:
    """All that it ever said comes again, the oldest first."""
    agent = _agent(ground, fault)
    for body in list(agent.said) if agent is not None else ():
        assert agent is not None
        await agent.say(body)
    if agent is not None:
        agent.suspect()


async def _older(ground: Ground, fault: Fault) -> None:
    """An agent sends unknown fields, a version that is not served, and no report at all."""
    agent = _agent(ground, fault)
    if agent is None:
        return
    body = write_report(agent.report)
    for said in (body[:-1] + b',"colour":"red"}', b'{"wire":0}', b"[]", body[: len(body) // 2]):
        await agent.say(said)
    agent.suspect()


async def _disk_full(ground: Ground, _: Fault) -> None:
    """Saves fail for a while, and agents say so."""
    play = ground.play
    for failure in (_FULL, None):
        play.may_save, play.save_failure = failure is None, failure
        for agent in play.living():
            agent.say_of_saves(failure)
        if failure is not None:
            await asyncio.sleep(_FULL_SECONDS)


KINDS: dict[str, Kind] = {
    "agent_frozen": Kind(_frozen),
    "agent_slow": Kind(_slow),
    "agent_lying": Kind(_lying),
    "agent_replaying": Kind(_replaying),
    "agent_older": Kind(_older),
    "disk_full": Kind(_disk_full),
}
