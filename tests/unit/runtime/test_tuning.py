"""What a look at a search does while its values, or those of another search, are being found."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from spotrun.act.tuning import TuningMemory, TuningWriter
from spotrun.api.tuning.words import TrialPhase
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.observe.caches import Caches
from spotrun.policies.tuning.decide import TuningDecision
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.runtime.tuning import TuningReconciler
from spotrun.search import Question, Suggestion
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import SearchBuilder, a_search

MODEL = a_search(
    trials={"max": 9, "parallel": 4}, search={"bayesian": {"startupTrials": 1}}
).with_trial(TrialPhase.SUCCEEDED, value=0.5)


@dataclass
class Played:
    """Caches with searches, a writer that keeps the decisions, and a model that waits."""

    searches: dict[str, SearchBuilder]
    decisions: dict[str, TuningDecision] = field(default_factory=dict)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    def caught_up(self, _: Key) -> bool:
        return True

    def search(self, key: Key) -> TuningSnapshot:
        return self.searches[key.name].with_facts(name=key.name).snapshot()

    async def exists(self, _: TuningSnapshot, __: int) -> bool:
        return True

    async def carry_out(
        self, search: TuningSnapshot, decision: TuningDecision, _: TuningMemory
    ) -> float:
        self.decisions[search.name] = decision
        return decision.wake_after_seconds

    async def suggest(self, _: Question) -> Suggestion:
        self.was_asked.set()
        await self.may_answer.wait()
        return Suggestion({"lr": 0.5})

    def reconciler(self) -> TuningReconciler:
        return TuningReconciler(
            cast("Caches", self),
            cast("TuningWriter", self),
            cast("Horizon[Key, Resource]", self),
            self.suggest,
            wall=lambda: NOW,
        )


async def test_what_is_to_be_done_does_not_wait_for_the_next_trials_values() -> None:
    played = Played({"one": MODEL.with_trial(TrialPhase.STOPPING).with_job(1)})
    await played.reconciler().reconcile(Key("ml", "one"))
    assert not played.was_asked.is_set()
    assert [step.number for step in played.decisions["one"].steps] == [1]


async def test_a_search_does_not_wait_while_the_model_of_another_is_asked() -> None:
    played = Played({"one": MODEL, "two": MODEL})
    reconciler = played.reconciler()
    first = asyncio.create_task(reconciler.reconcile(Key("ml", "one")))
    await played.was_asked.wait()
    assert await reconciler.reconcile(Key("ml", "two")) == 1.0
    assert "one" not in played.decisions
    assert len(played.decisions["two"].status.trials) == 1
    played.may_answer.set()
    await first
    assert len(played.decisions["one"].status.trials) == 2
