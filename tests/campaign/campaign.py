"""Many plans in one cluster, several at once; what fails is made as short as it can be."""

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from devcluster.cluster import Cluster
from tests.campaign.journal import Journal
from tests.campaign.kinds.every import KINDS
from tests.campaign.plan import Plan, simpler
from tests.campaign.run import Verdict, judged

_MOST_TRIES = 12  # of simpler plans in place of a failing one


@dataclass
class Campaign:
    """A cluster, what undisturbed runs come to, and the journal."""

    cluster: Cluster
    journal: Journal
    width: int = 4
    undisturbed: dict[str, Verdict] = field(default_factory=dict)
    _places: asyncio.Semaphore = field(init=False)
    _door: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.width)

    async def prepare(self, scenarios: list[str]) -> dict[str, int]:
        """Run scenarios undisturbed; returns how many writes each makes."""
        plans = [Plan(name, ()) for name in scenarios]
        for verdict in await asyncio.gather(*(self._run(plan) for plan in plans)):
            if verdict.complaints:
                raise RuntimeError(f"{verdict.plan} fails undisturbed: {verdict.complaints}")
            self.undisturbed[verdict.plan.scenario] = verdict
        return {name: self.undisturbed[name].writes for name in scenarios}

    async def run_all(self, plans: Iterator[Plan], *, until: float, most: int) -> None:
        """Run plans that are not in the journal until a time, or until there are so many."""
        known = {line["plan"] for line in self.journal.lines()}
        tasks: set[asyncio.Task[None]] = set()
        left = most - len(known)
        for plan in plans:
            if left <= 0 or time.monotonic() > until:
                break
            if str(plan) in known:
                continue
            known.add(str(plan))
            left -= 1
            tasks.add(asyncio.create_task(self._note(plan)))
            if len(tasks) >= self.width:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()  # an error of the campaign itself ends it
        await asyncio.gather(*tasks)

    async def _note(self, plan: Plan) -> None:
        verdict = await self._run(plan)
        more = {}
        if verdict.complaints:
            short = await self.shortest(verdict)
            more = {"shortest": str(short.plan), "repeat": f"make campaign PLAN={short.plan}"}
        print(json.dumps(self.journal.add(verdict, **more)), flush=True)

    async def shortest(self, failing: Verdict) -> Verdict:
        """Return the verdict on the simplest plan that fails as well."""
        tries, tried = 0, {failing.plan}
        while tries < _MOST_TRIES:
            candidate = next((p for p in simpler(failing.plan) if p not in tried), None)
            if candidate is None:
                break
            tries += 1
            tried.add(candidate)
            verdict = await self._run(candidate)
            if verdict.complaints:
                failing = verdict
        return failing

    async def _run(self, plan: Plan) -> Verdict:
        is_alone = any(KINDS[fault.kind].is_alone for fault in plan.faults)
        async with self._room(is_alone=is_alone):
            begun = time.monotonic()
            try:
                verdict = await judged(self.cluster, plan, self.undisturbed.get(plan.scenario))
                if is_alone:  # the API server's watches may lag behind etcd for a while
                    await judged(self.cluster, Plan("create", ()))
            except Exception as error:  # a plan that cannot be judged has failed, too
                words = "".join(traceback.format_exception(error))[-1500:]
                wrong = {"the test itself": [words]}
                verdict = Verdict(plan, time.monotonic() - begun, 0, 0, wrong)
            return verdict

    @asynccontextmanager
    async def _room(self, *, is_alone: bool) -> AsyncIterator[None]:
        taken = self.width if is_alone else 1
        async with self._door:  # who wants all places is not overtaken
            for _ in range(taken):
                await self._places.acquire()
        try:
            yield
        finally:
            for _ in range(taken):
                self._places.release()
