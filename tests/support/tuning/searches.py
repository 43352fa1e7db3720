"""Searches made by hand: `a_search(trials={"max": 3}).with_trial(value=0.5).decide()`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

from spotrun.api.field_types.intervals import Ranges
from spotrun.api.meta import ConditionStatus, ReasonText
from spotrun.api.names import Phase
from spotrun.api.tuning.tuningjob import TuningJobSpec
from spotrun.api.tuning.words import TrialPhase
from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.tuning.decide import TuningDecision, Values, decide
from spotrun.policies.tuning.snapshot import Child, TuningSnapshot
from spotrun.policies.tuning.state import Trial, TuningState
from spotrun.search import Suggestion
from spotrun.search.trial import Report
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Accumulators, Cost
from spotrun.state.stored.statements import Condition
from spotrun.state.stored.training import Progress
from tests.support.api.search_cases import search
from tests.support.jobs.builders import NOW, ago

FINAL = frozenset({TrialPhase.SUCCEEDED, TrialPhase.PRUNED, TrialPhase.STOPPED, TrialPhase.FAILED})


def usd(amount: str) -> Usd:
    return Usd(Decimal(amount))


def a_job(
    phase: Phase = Phase.RUNNING,
    *,
    cost: str = "0",
    per_hour: str | None = None,
    forecast: str | None = None,
    settled: int = 0,
    given_out: int = 1,
    training_for: float | None = None,
    **state: Any,
) -> JobState:
    """Return the state of a trial's job; so many of its workers are settled."""
    running = Condition(
        ReasonText("Running"), ConditionStatus.TRUE, ago(training_for or 0), ReasonText("T"), ""
    )
    return JobState(
        phase=phase,
        cost=Cost(
            usd=usd(cost),
            usd_per_hour=UsdPerHour(Decimal(per_hour)) if per_hour else None,
            forecast_usd=usd(forecast) if forecast else None,
        ),
        accumulators=Accumulators(usd=usd(cost)),
        next_worker_id=given_out,
        settled=Ranges.of([(0, settled - 1)] if settled else []),
        conditions=(running,) if training_for is not None else (),
        progress=Progress(step=1) if training_for is not None else Progress(),
        **state,
    )


@dataclass(frozen=True)
class SearchBuilder:
    """A search, and what is known of its trials."""

    manifest: Mapping[str, Any]
    status: TuningState = field(default_factory=TuningState)
    children: Mapping[int, Child] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def with_spec(self, **spec: Any) -> Self:
        return replace(self, manifest=search({**self.manifest["spec"], **spec}))

    def with_status(self, **status: Any) -> Self:
        return replace(self, status=replace(self.status, **status))

    def with_facts(self, **facts: Any) -> Self:
        return replace(self, facts={**self.facts, **facts})

    def with_trial(
        self,
        phase: TrialPhase = TrialPhase.RUNNING,
        *,
        value: float | None = None,
        step: int | None = None,
        cost: str = "0",
        cap: str | None = None,
        course: Mapping[int, float] | None = None,
        **trial: Any,
    ) -> Self:
        """Add the next trial."""
        number = len(self.status.trials)
        one = Trial(
            number=number,
            values=trial.pop("values", {"lr": (number + 1) / 100}),
            phase=phase,
            value=value,
            step=step if step is not None or value is None else 100,
            usd=usd(cost),
            cap_usd=usd(cap) if cap else None,
            course=tuple(Report(at, told) for at, told in (course or {}).items()),
            ended_at=ago(60) if phase in FINAL else None,
            **trial,
        )
        return self.with_status(trials=(*self.status.trials, one))

    def with_job(self, number: int, state: JobState | None = None, **child: Any) -> Self:
        """Add the TrainingJob of a trial; `loss` at `step` is what it reports."""
        loss, step = child.pop("loss", None), child.pop("step", 100)
        metrics = child.pop("metrics", {"loss": (step, loss)} if loss is not None else {})
        known = {"is_suspended": False, "is_current": True, **child}
        job = Child(
            name=f"search-{number}",
            uid=f"uid-{number}",
            version="1",
            folder=f"search-{number}-bp7jg",
            state=state if state is not None else a_job(),
            metrics=metrics,
            **known,
        )
        return replace(self, children={**self.children, number: job})

    def snapshot(self) -> TuningSnapshot:
        spec = json.dumps(self.manifest["spec"])
        known = {
            "namespace": "ml",
            "name": "search",
            "uid": "u",
            "version": "7",
            "generation": 1,
            "created_at": ago(600),
            **self.facts,
        }
        return TuningSnapshot(
            spec=TuningJobSpec.model_validate_json(spec, by_alias=True, by_name=False),
            status=self.status,
            children=self.children,
            **known,
        )

    def decide(self, values: Values = None, now: datetime = NOW) -> TuningDecision:
        return decide(self.snapshot(), now, values)

    def trials(self, now: datetime = NOW) -> tuple[Trial, ...]:
        return self.decide(now=now).status.trials

    def begun(self) -> Self:
        """The same after one more trial has begun."""
        values = Suggestion({"lr": 0.5})
        return replace(self, status=self.decide(values).status)


def a_search(**spec: Any) -> SearchBuilder:
    """Return a search for the least loss, which was looked at before."""
    built = SearchBuilder(search(spec))
    return built.with_status(started_at=ago(600))


def a_population(size: int = 2, rounds: int = 2, **spec: Any) -> SearchBuilder:
    """Return a search by a population, whose rounds have 100 steps."""
    given = {
        "search": {"population": {"size": size, "stepsPerRound": 100}},
        "trials": {"max": size * rounds, "parallel": size, "maxFailed": 9},
        "template.spec.checkpoint": {"uri": "s3://bucket"},
    }
    return a_search(**{**given, **spec})
