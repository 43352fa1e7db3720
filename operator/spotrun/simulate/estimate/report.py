"""The report of an estimate, for people and for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from math import inf
from typing import Any

from spotrun.simulate.estimate.replayable_job import Replayed
from spotrun.simulate.estimate.spread import Spread
from spotrun.simulate.market.recorded_markets import RecordedMarket
from spotrun.simulate.outcome import Outcome
from spotrun.simulate.replay_runs import Case
from spotrun.simulate.scenario import Job

_HOUR = 3600.0
LeftOut = Sequence[tuple[RecordedMarket, str]]


@dataclass(frozen=True)
class Estimate:
    """The outcome of a job on one recorded market."""

    market: RecordedMarket
    on_demand_usd: float  # with only on-demand nodes, which are always available
    runs: Sequence[Outcome]
    fewer: str | None  # why there are fewer replays than were asked for
    over_budget: int | None  # None: there is no budget
    met: Sequence[bool | None]  # whether each met the deadline; None: the recording ended before it
    saves_usd: Sequence[float | None] | None = None  # the cost of checkpoints in a bucket, for each

    @classmethod
    def of(
        cls,
        market: RecordedMarket,
        job: Replayed,
        case: Case,
        runs: Sequence[Outcome],
        fewer: str | None,
    ) -> "Estimate":
        """Compare the replays with deadline and budget, and with the cost of on-demand."""
        hours = (job.job.work_seconds + case.rules.changeover_seconds) / _HOUR
        most = job.left_usd
        usd = hours * job.job.workers * float(case.recordings.on_demand_usd_per_hour)
        return cls(
            market=market,
            on_demand_usd=round(usd, 6),
            runs=runs,
            fewer=fewer,
            over_budget=None if most is None else sum(one.cost_usd > most for one in runs),
            met=[_deadline_met(one, case.job) for one in runs],
            saves_usd=[job.saves.usd(one) for one in runs] if job.saves is not None else None,
        )

    @property
    def cost_usd(self) -> Spread:
        """The cost of the job."""
        return Spread.of([one.cost_usd for one in self.runs])

    @property
    def finish_hours(self) -> Spread:
        """The hours until the job was done."""
        return Spread.of([one.finish_hours for one in self.runs])

    @property
    def interruptions(self) -> Spread:
        """The number of nodes taken away."""
        return Spread.of([one.interruptions for one in self.runs])

    @property
    def lost_work_hours(self) -> Spread:
        """The hours of work that had to be done again."""
        return Spread.of([one.lost_work_hours for one in self.runs])

    @property
    def saved_percent(self) -> Spread:
        """The savings of finished replays against only on-demand; negative if these cost more."""
        whole = self.on_demand_usd
        done = [one.cost_usd for one in self.runs if one.finish_hours is not None and whole]
        return Spread.of([100 * (1 - usd / whole) for usd in done])

    @property
    def late(self) -> int:
        """The number of replays that missed the deadline."""
        return sum(met is False for met in self.met)

    @property
    def unfinished(self) -> int:
        """The number of replays that were given up, or not done when the recording ended."""
        return sum(one.finish_hours is None for one in self.runs)


def _deadline_met(one: Outcome, job: Job) -> bool | None:
    is_known = one.finish_hours is not None or job.deadline_seconds <= job.reach_seconds
    return one.deadline_met if is_known else None


def as_json(job: Replayed, estimates: Sequence[Estimate], left_out: LeftOut) -> str:
    """Return one object that contains every replay."""
    return json.dumps(
        {
            "job": job.name,
            "work_hours": round(job.job.work_seconds / _HOUR, 6),
            "workers": job.job.workers,
            "min_workers": job.job.min_workers,
            "deadline_hours": _deadline_hours(job),
            "max_cost_usd": None if job.max_cost_usd is None else float(job.max_cost_usd),
            "budget_left_usd": None if job.left_usd is None else float(job.left_usd),
            "markets": [_object(one, job) for one in estimates],
            "markets_left_out": [{"market": market.name, "why": why} for market, why in left_out],
            "left_out": job.left_out,
        }
    )


def _object(estimate: Estimate, job: Replayed) -> dict[str, Any]:
    began, ended = estimate.market.period or (None, None)
    return {
        "market": estimate.market.name,
        "recordings": [trace.name for trace in estimate.market.traces],
        "recorded_from": began and began.isoformat(),
        "recorded_until": ended and ended.isoformat(),
        "on_demand_usd": estimate.on_demand_usd,
        "cost_usd": asdict(estimate.cost_usd),
        "saved_percent": asdict(estimate.saved_percent),
        "checkpoints_usd": None
        if estimate.saves_usd is None
        else asdict(Spread.of(estimate.saves_usd)),
        "finish_hours": asdict(estimate.finish_hours),
        "interruptions": asdict(estimate.interruptions),
        "lost_work_hours": asdict(estimate.lost_work_hours),
        "unfinished": estimate.unfinished,
        "deadlines_missed": estimate.late if _deadline_hours(job) is not None else None,
        "over_budget": estimate.over_budget,
        "fewer_replays": estimate.fewer,
        "runs": [
            {**asdict(one), "deadline_met": met}
            for one, met in zip(estimate.runs, estimate.met, strict=True)
        ],
    }


def as_text(job: Replayed, estimates: Sequence[Estimate], left_out: LeftOut) -> str:
    """Return a text for people: a few lines for each market, and notes about them."""
    lines = [_headline(job)]
    for one in estimates:
        lines += ["", *_lines(one, job)]
    return "\n".join(
        [
            *lines,
            "",
            "The results of the operator's decisions on these recordings; this is not a forecast.",
            *(f"* {market.name} cannot be used for this job: {why}" for market, why in left_out),
            *(f"* {what}" for what in job.left_out),
        ]
    )


def _lines(estimate: Estimate, job: Replayed) -> Iterator[str]:
    began, ended = estimate.market.period or (None, None)
    when = f", {began:%Y-%m-%d} to {ended:%Y-%m-%d}" if began and ended else ""
    number, over = len(estimate.runs), estimate.over_budget
    yield f"{estimate.market.name}{when}, replays: {number}"
    if estimate.fewer is not None:
        yield f"  {estimate.fewer}"
    yield _line("", ("least", "middle", "most"))
    yield _line("cost, $", estimate.cost_usd.shown(2), _of(over, number, "over the budget"))
    if estimate.saves_usd is not None and job.saves is not None:
        figures = Spread.of(estimate.saves_usd).shown(2)
        note = f"in addition, for {job.saves.keep} kept, in {job.saves.region}"
        yield _line("checkpoints, $", figures, note)
    on_demand = f"on-demand alone: {estimate.on_demand_usd:,.2f} $"
    yield _line("saved, %", estimate.saved_percent.shown(0), on_demand)
    late = estimate.late if _deadline_hours(job) is not None else None
    never = _of(estimate.unfinished or None, number, "not finished")
    note = ", ".join(text for text in (_of(late, number, "late"), never) if text)
    yield _line("done after, h", estimate.finish_hours.shown(1, unknown="never"), note)
    yield _line("nodes taken away", estimate.interruptions.shown(0))
    yield _line("work lost, h", estimate.lost_work_hours.shown(1))


def _line(name: str, figures: tuple[str, str, str], note: str = "") -> str:
    columns = "".join(f"{figure:>11}" for figure in figures)
    return f"  {name:16}{columns}  {note}".rstrip()


def _of(some: int | None, number: int, what: str) -> str:
    return "" if some is None else f"{some} of {number} {what}"


def _headline(job: Replayed) -> str:
    its = job.job
    sizes = (
        "" if its.min_workers == its.workers else f", workers: {its.min_workers} to {its.workers}"
    )
    due = _deadline_hours(job)
    return "".join(
        [
            f"{job.name}: {its.work_seconds / _HOUR:,.1f} h of work at size {its.workers}{sizes}",
            "" if due is None else f", due in {due:,.1f} h",
            _money(job.max_cost_usd, job.left_usd),
        ]
    )


def _money(most: Decimal | None, left: Decimal | None) -> str:
    if most is None or left is None:
        return ""
    rest = "" if left == most else f", of which {left:,.2f} $ are left"
    return f", for at most {most:,f} $" + rest


def _deadline_hours(job: Replayed) -> float | None:
    seconds = job.job.deadline_seconds
    return None if seconds == inf else round(seconds / _HOUR, 6)
