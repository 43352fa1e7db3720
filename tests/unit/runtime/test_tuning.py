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
from spotrun.runtime.asking.models import ASK_AGAIN_SECONDS, SLOW_SECONDS
from spotrun.runtime.tuning import TuningReconciler
from spotrun.search import Question, Suggestion
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import SearchBuilder, a_search

MODEL = a_search(
    trials={"max": 9, "parallel": 4}, search={"bayesian": {"startupTrials": 1}}
).with_trial(TrialPhase.SUCCEEDED, value=0.5)


ONE = Key("ml", "one")


@dataclass
class Played:
    """Caches with searches, a writer that keeps the decisions, and a model that waits."""

    searches: dict[str, SearchBuilder]
    decisions: dict[str, TuningDecision] = field(default_factory=dict)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    was_woken: asyncio.Event = field(default_factory=asyncio.Event)
    clock: float = 0.0
    failure: str = ""
    asked: int = 0

    async def answer(self) -> None:
        """Let the model answer, and wait until the search is woken with that."""
        self.may_answer.set()
        await self.was_woken.wait()

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
        self.asked += 1
        self.was_asked.set()
        await self.may_answer.wait()
        if self.failure:
            raise ValueError(self.failure)
        return Suggestion({"lr": 0.5})

    def reconciler(self) -> TuningReconciler:
        return TuningReconciler(
            cast("Caches", self),
            cast("TuningWriter", self),
            cast("Horizon[Key, Resource]", self),
            self.suggest,
            wake=lambda _: self.was_woken.set(),
            clock=lambda: self.clock,
            wall=lambda: NOW,
        )


async def test_what_is_to_be_done_does_not_wait_for_the_next_trials_values() -> None:
    played = Played({"one": MODEL.with_trial(TrialPhase.STOPPING).with_job(1)})
    await played.reconciler().reconcile(Key("ml", "one"))
    assert not played.was_asked.is_set()
    assert [step.number for step in played.decisions["one"].steps] == [1]


async def test_no_search_waits_for_an_answer_of_its_own_model() -> None:
    played = Played({"one": MODEL})
    reconciler = played.reconciler()
    await reconciler.reconcile(ONE)
    assert len(played.decisions["one"].status.trials) == 1
    await played.was_asked.wait()
    played.searches["one"] = MODEL.with_trial(TrialPhase.STOPPING, reason=None).with_job(1)
    await reconciler.reconcile(ONE)
    assert [step.number for step in played.decisions["one"].steps] == [1], "meanwhile"
    played.searches["one"] = MODEL
    await played.answer()
    await reconciler.reconcile(ONE)
    assert len(played.decisions["one"].status.trials) == 2
    assert played.asked == 1


async def test_one_model_that_takes_long_does_not_keep_others_from_being_asked() -> None:
    played = Played({"one": MODEL, "two": MODEL})
    reconciler = played.reconciler()
    for name in ("one", "two"):
        await reconciler.reconcile(Key("ml", name))
        await asyncio.sleep(0)
    assert played.asked == 2
    reconciler.stop_asking()


async def test_a_model_that_takes_long_or_fails_is_told_of_until_there_is_an_answer() -> None:
    played = Played({"one": MODEL}, failure="too little memory")
    reconciler = played.reconciler()
    assert await reconciler.reconcile(ONE) == SLOW_SECONDS
    assert _searching(played) == ("True", "TrialsRun", "more trials may begin")
    played.clock += SLOW_SECONDS
    await reconciler.reconcile(ONE)
    assert _searching(played)[1] == "NoValuesYet"
    assert "for more than 5 s" in _searching(played)[2]
    await played.answer()
    assert await reconciler.reconcile(ONE) == ASK_AGAIN_SECONDS
    told = ("Unknown", "NoValuesYet", "too little memory")
    assert _searching(played) == told
    played.clock, played.failure = played.clock + ASK_AGAIN_SECONDS, ""
    played.was_woken.clear()
    await reconciler.reconcile(ONE)
    assert (_searching(played), played.asked) == (told, 1), "asked again, and no answer yet"
    await played.answer()
    await reconciler.reconcile(ONE)
    assert len(played.decisions["one"].status.trials) == 2


async def test_a_search_that_is_made_anew_gets_no_values_of_the_old_one() -> None:
    played = Played({"one": MODEL})
    reconciler = played.reconciler()
    await reconciler.reconcile(ONE)
    await played.answer()
    played.searches["one"] = MODEL.with_facts(uid="another")
    await reconciler.reconcile(ONE)
    assert len(played.decisions["one"].status.trials) == 1
    reconciler.stop_asking()


def _searching(played: Played) -> tuple[str, str, str]:
    conditions = played.decisions["one"].status.conditions
    [found] = [one for one in conditions if one.type == "Searching"]
    return found.status.value, found.reason, found.message
