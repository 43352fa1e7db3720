"""Replays from several moments of the same recordings, and their averages."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from spotrun.simulate.market.virtual_market import Recordings
from spotrun.simulate.outcome import Outcome
from spotrun.simulate.policies import player
from spotrun.simulate.scenario import Job, Rules


@dataclass(frozen=True)
class Starts:
    """The ticks from which to replay."""

    first: int = 0
    every: int = 1
    number: int = 1

    @property
    def ticks(self) -> list[int]:
        """All the ticks."""
        return [self.first + number * self.every for number in range(self.number)]


@dataclass(frozen=True)
class Case:
    """A job, the recordings to replay for it, and the rules of the replay."""

    job: Job
    recordings: Recordings
    rules: Rules


def run(
    policy: str,
    case: Case,
    starts: Starts,
    on_outcome: Callable[[int, Outcome], None] = lambda _number, _outcome: None,
) -> list[Outcome]:
    """Replay a job once from each start; `on_outcome` is called as each one ends."""
    play = player(policy)
    outcomes: list[Outcome] = []
    for tick in starts.ticks:
        market = case.recordings.market(tick)
        course = play(case.job, market, case.rules)
        outcomes.append(Outcome.of(policy, course, case.job, market))
        on_outcome(len(outcomes), outcomes[-1])
    return outcomes


def check(policy: str, case: Case, starts: Starts) -> None:
    """Refuse a policy without its library, and starts whose deadline is after a trace's end."""
    player(policy)
    job, recordings = case.job, case.recordings
    last, gap = starts.ticks[-1], recordings.tick_seconds
    room = recordings.seconds - job.deadline_seconds
    if last * gap <= room:
        return
    latest = int(room // gap)
    hours, needs = recordings.seconds / 3600, job.deadline_seconds / 3600
    if latest < 0:
        raise ValueError(
            f"the shortest trace has {hours:.1f} h, but the deadline is after {needs:.1f} h: give "
            "a shorter deadline, or longer traces"
        )
    raise ValueError(
        f"from tick {last} on the traces have less than {needs:.1f} h left: the last tick from "
        f"which they reach the deadline is {latest}"
    )


def as_json(outcomes: Sequence[Outcome], starts: Starts) -> dict[str, Any]:
    """Return one object; for several replays, the means, and each replay under `runs`."""
    if starts.number == 1:
        return asdict(outcomes[0])
    runs = [
        {"start_tick": tick, **asdict(outcome)}
        for tick, outcome in zip(starts.ticks, outcomes, strict=True)
    ]
    missed = sum(not outcome.deadline_met for outcome in outcomes)
    return {
        "policy": outcomes[0].policy,
        "deadline_met": not missed,
        "deadlines_missed": missed,
        **{name: _mean(outcomes, name) for name in _AVERAGED},
        "runs": runs,
    }


_AVERAGED = (
    "cost_usd",
    "finish_hours",
    "launches",
    "interruptions",
    "spot_hours",
    "on_demand_hours",
    "idle_hours",
    "lost_work_hours",
)


def _mean(outcomes: Sequence[Outcome], name: str) -> float | None:
    values = [getattr(outcome, name) for outcome in outcomes]
    known = [value for value in values if value is not None]
    return round(fmean(known), 6) if len(known) == len(values) else None
