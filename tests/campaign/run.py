"""One plan from the beginning to its verdict."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import aiohttp

from devcluster.client import ApiError, Manifest
from devcluster.cluster import Cluster
from tests.campaign.ground import Ground, Needs, opened
from tests.campaign.kinds.every import KINDS
from tests.campaign.oracles import duplicates, orphans, same_cost, same_end, torn
from tests.campaign.plan import Fault, Plan
from tests.campaign.scenarios import SCENARIOS
from tests.faults.rules import Rule
from tests.plans.run import look

LIMIT_SECONDS = 120.0
"""A run that nothing disturbs takes three seconds, a fault at most ten; the rest is for machines
that do other things as well."""


_HEAL_SECONDS = 30.0


@dataclass(frozen=True)
class Verdict:
    """The outcome of a plan; `complaints` by oracle, none where all is well."""

    plan: Plan
    seconds: float
    struck: int  # the faults that came to their moment
    writes: int
    complaints: dict[str, list[str]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, repr=False)


async def judged(cluster: Cluster, plan: Plan, undisturbed: Verdict | None = None) -> Verdict:
    """Run a plan; without another to compare with, its end is compared with nothing."""
    begun = time.monotonic()
    kinds = [KINDS[fault.kind] for fault in plan.faults]
    replicas = max((kind.replicas for kind in kinds), default=1)
    is_exact = all(kind.is_exact for kind in kinds)
    complaints: dict[str, list[str]] = {}
    needs = reduce(or_, (kind.needs for kind in kinds), Needs())
    async with opened(cluster, replicas, is_exact=is_exact, needs=needs) as ground:
        faults = _Faults(ground, plan.faults)
        state: dict[str, Any] = {}
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await _live(ground, plan.scenario)
                await faults.healed()
                await ground.settled()
            state = await look(ground.world, ground.history)
        except (TimeoutError, AssertionError) as error:
            complaints["bounded time"] = [str(error)[:300], await _where(ground)]
        except (aiohttp.ClientError, ApiError, OSError) as error:
            complaints["the test itself"] = [repr(error)[:500]]
        finally:
            await faults.end()
        is_ended = ground.is_job_ended.is_set()
        is_deleted = plan.scenario == "delete" or is_ended
        like = None if is_ended else undisturbed
        complaints |= await _asked(ground, state, like, is_exact=is_exact, is_deleted=is_deleted)
        return Verdict(
            plan,
            time.monotonic() - begun,
            faults.count,
            ground.moments.count,
            {oracle: found for oracle, found in complaints.items() if found},
            state,
        )


async def _live(ground: Ground, scenario: str) -> None:
    """Play a scenario to its end, or until a fault has ended the job for good."""
    life = asyncio.create_task(SCENARIOS[scenario](ground.stage))
    end = asyncio.create_task(ground.is_job_ended.wait())
    try:
        await asyncio.wait({life, end}, return_when=asyncio.FIRST_COMPLETED)
        if not ground.is_job_ended.is_set():
            await life
    finally:
        life.cancel()
        end.cancel()
        await asyncio.gather(life, end, return_exceptions=True)


async def _asked(
    ground: Ground,
    state: dict[str, Any],
    undisturbed: Verdict | None,
    *,
    is_exact: bool,
    is_deleted: bool,
) -> dict[str, list[str]]:
    found = {
        "no duplicate rank": duplicates(ground, is_exact=is_exact),
        "no torn checkpoint": torn(ground),
    }
    if not state:
        return found
    await ground.meter.has_seen_all_ends("job")
    found["same cost"] = await same_cost(ground)
    found["no orphan"] = await orphans(ground, is_deleted=is_deleted)
    if undisturbed is not None:
        found["same end"] = same_end(undisturbed.state, state, is_exact=is_exact)
    return found


async def _where(ground: Ground) -> str:
    """Say where a run stands that has not come to its end."""
    try:
        status = (await ground.world.job()).get("status", {})
    except Exception as error:
        return f"no end, and no job: {error}"  # it is but a message
    known = {name: status.get(name) for name in ("phase", "world", "settled", "nextWorkerId")}
    pods = [
        (p["metadata"]["name"], p.get("status", {}).get("phase"), _place(p))
        for p in await ground.world.pods()
    ]
    said = {n: agent.report.arrived for n, agent in ground.play.agents.items()}
    leads = [one.leader is not None for one in ground.deployments]
    return f"no end: {known}, pods {pods}, agents arrived {said}, replicas lead {leads}"


def _place(pod: Manifest) -> str | None:
    """Return the node of a pod, or why the scheduler has found none."""
    conditions = pod.get("status", {}).get("conditions", ())
    reasons = [one.get("message") for one in conditions if one["type"] == "PodScheduled"]
    return pod["spec"].get("nodeName") or next(iter(reasons), None)


class _Faults:
    """Has each fault strike at its moment."""

    def __init__(self, ground: Ground, faults: Sequence[Fault]) -> None:
        self._ground = ground
        self._struck: set[Fault] = set()
        self._rules: list[Rule] = []
        self._tasks: dict[Fault, asyncio.Task[None]] = {}
        for fault in faults:
            rule = KINDS[fault.kind].rule
            if rule is None:
                self._tasks[fault] = asyncio.create_task(self._strike(fault))
            else:
                self._rules.append(ground.proxy.inject(rule(fault)))

    @property
    def count(self) -> int:
        """The number of faults whose moment has come."""
        return sum(rule.fired > 0 for rule in self._rules) + len(self._struck)

    async def end(self) -> None:
        """End what has not struck; what has is to heal, which others rely on."""
        for fault, task in self._tasks.items():
            if fault not in self._struck:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_HEAL_SECONDS)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def healed(self) -> None:
        """Wait until what has begun is over, whose errors are raised; the rest never comes."""
        for fault, task in self._tasks.items():
            if fault not in self._struck:
                task.cancel()
        ends = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for fault, end in zip(self._tasks, ends, strict=True):
            # Once the job is no more, the others do not find what they were to strike.
            is_lost = self._ground.is_job_ended.is_set() and not KINDS[fault.kind].ends_job
            if isinstance(end, Exception) and not is_lost:
                raise end

    async def _strike(self, fault: Fault) -> None:
        kind = KINDS[fault.kind]
        if not kind.is_from_start:
            await self._ground.moments.reached(fault.at)
        self._struck.add(fault)
        strike = kind.strike
        assert strike is not None, "else it has a rule"
        await strike(self._ground, fault)
