"""One job on one screen: state, progress, money, workers, history, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from spotrun.api.names import Phase
from spotrun.cli.jobs.advice import troubles
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.screens.listing import COLOURS
from spotrun.cli.jobs.workers import Place, Worker, workers_of
from spotrun.cli.text.look import Look
from spotrun.cli.text.table import Cell, Column, table
from spotrun.cli.text.words import (
    age,
    amount,
    count,
    moment,
    percent_of,
    plain_usd,
    seconds_since,
    sentence,
    span,
    things,
    usd,
)
from spotrun.observe.kube_objects import EventObject, PodObject

MOST_WORKERS = 16
MOST_DECISIONS = 6
_BAR = 24
_LABEL = 12
_DAY_SECONDS = 86_400
_WORKER_COLUMNS = (
    Column("RANK", is_number=True),
    Column("WORKER", is_number=True, is_kept=True),
    Column("STATE", is_kept=True),
    Column("CAPACITY"),
    Column("$/H", is_number=True),
    Column("NODE"),
    Column("ZONE"),
    Column("MACHINE"),
    Column("AGE", is_number=True),
    Column("POD", is_kept=True),
)


@dataclass(frozen=True)
class Facts:
    """A job with what was read with it."""

    job: Job
    pods: Sequence[PodObject] = ()
    pools: Sequence[Pool] = ()
    events: Sequence[EventObject] = ()
    places: Mapping[str, Place] = field(default_factory=dict)  # of nodes that may be read


def detail(facts: Facts, look: Look) -> list[str]:
    """Return the lines of the screen."""
    job = facts.job
    parts = [
        _head(job, look),
        _summary(job, look),
        _workers(workers_of(job, facts.pods, facts.pools, facts.places), look),
        _worlds(facts.events, look),
        _decisions(job, look),
        _next(job, look),
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def _head(job: Job, look: Look) -> list[str]:
    status, meta = job.status, job.metadata
    phase = status.phase or "not seen yet"
    colour = COLOURS.get(status.phase, "red")
    dot = look.paint(phase, colour)
    title = f"{meta.namespace}/{look.paint(meta.name, 'bold')}  {dot}"
    why = f" ({status.reason})" if status.reason and status.reason != "Training" else ""
    lines = [f"{title}{why}, made {age(meta.creation_timestamp, look.now)} ago"]
    if status.message:
        lines += look.filled(sentence(status.message))
    return lines


def _summary(job: Job, look: Look) -> list[str]:
    rows = [
        ("Workers", _sizes(job)),
        ("Progress", _progress(job, look)),
        ("Stage", _stage(job)),
        ("Checkpoint", _checkpoint(job, look)),
        ("Local tier", _local_checkpoint(job, look)),
        ("Cost", _cost(job)),
        ("Savings", _savings(job)),
        ("Deadline", _deadline(job, look)),
        ("Losses", _losses(job, look)),
    ]
    lines = []
    for label, text in rows:
        if text:
            lines += look.filled(text, f"{label:{_LABEL}}", " " * _LABEL)
    return lines


def _sizes(job: Job) -> str:
    shown, spec = job.status.workers, job.spec.workers
    kinds = [
        f"{number} {kind}"
        for number, kind in ((shown.spot, "spot"), (shown.on_demand, "on demand"))
        if number
    ]
    span_of = f"{spec.min}" if spec.min == spec.max else f"{spec.min} to {spec.max}"
    author = "chosen by the operator" if job.spec.is_auto else "chosen by you"
    text = f"{shown.summary or '0'} running"
    text += f": {' and '.join(kinds)}" if kinds else ""
    text += f"; {span_of} allowed, {author}"
    if shown.allowed and shown.allowed.size < spec.max:
        text += f"; at most {shown.allowed.size} now ({shown.allowed.reason})"
    return text


def _progress(job: Job, look: Look) -> str:
    done, pace = job.status.progress, job.status.pace
    if done.step is None:
        return ""
    parts = []
    if done.percent:
        share = int(done.percent.rstrip("%"))
        parts.append(f"{'#' * (share * _BAR // 100):.<{_BAR}} {done.percent}")
    of = f" of {count(done.total_steps)}" if done.total_steps else ""
    parts.append(f"step {count(done.step)}{of}")
    if pace.step_seconds:
        parts.append(f"{_short(pace.step_seconds)} s a step")
    if done.samples_per_second:
        parts.append(f"{_short(done.samples_per_second)} samples/s")
    left = seconds_since(done.eta, look.now)
    if left is not None and left < 0:
        parts.append(f"{span(left)} left")
    return ", ".join(parts)


def _stage(job: Job) -> str:
    stage = job.status.stage
    if stage is None:
        return ""
    text = f"{stage.name}, {stage.index + 1} of {len(job.spec.stages)}"
    text += f", since step {count(stage.since_step)}"
    return f"{text}; it ends: {stage.why}" if stage.why else text


def _checkpoint(job: Job, look: Look) -> str:
    saved = job.status.checkpoint
    if saved is None:
        return "" if job.spec.checkpoint else "no place for any: a job without workers starts over"
    return f"step {count(saved.step)}, {age(saved.time, look.now)} ago ({saved.name})"


def _local_checkpoint(job: Job, look: Look) -> str:
    kept = job.status.local_checkpoint
    return f"step {count(kept.step)}, {age(kept.time, look.now)} ago" if kept else ""


def _cost(job: Job) -> str:
    cost, budget = job.status.cost, job.spec.budget
    if cost.usd is None:
        return ""
    parts = [f"{usd(cost.usd)} so far"]
    if cost.usd_per_hour:
        parts.append(f"{usd(cost.usd_per_hour)}/h now")
    if cost.forecast_usd:
        between = (
            f" ({usd(cost.forecast_low_usd)} to {usd(cost.forecast_high_usd)})"
            if cost.forecast_low_usd and cost.forecast_high_usd
            else ""
        )
        parts.append(f"{usd(cost.forecast_usd)}{between} at the end")
    if budget and budget.max_cost_usd:
        used = f", {cost.budget_used_percent} used" if cost.budget_used_percent else ""
        parts.append(f"budget {usd(budget.max_cost_usd)}{used}")
    if cost.pricing and cost.pricing != "Complete":
        parts.append(f"prices: {cost.pricing}")
    return "; ".join(parts)


def _savings(job: Job) -> str:
    cost = job.status.cost
    if cost.saved_usd is None or cost.on_demand_usd is None:
        return ""
    saved, on_demand = amount(cost.saved_usd), amount(cost.on_demand_usd)
    if not on_demand:
        return ""
    verb = "saved" if saved >= 0 else "exceeded by"
    text = f"{usd(on_demand)} on demand for the same steps: {verb} {usd(abs(saved))}"
    text += f" ({percent_of(abs(saved), on_demand)})"
    if amount(cost.lost_work_usd) > Decimal(0):
        text += f"; lost work {usd(cost.lost_work_usd)}"
    if cost.goodput:
        text += f"; goodput {cost.goodput}"
    return text


def _deadline(job: Job, look: Look) -> str:
    wanted = job.spec.deadline
    if wanted is None:
        return ""
    when = wanted.finish_before or f"within {wanted.finish_within} of its creation"
    state = job.status.condition("OnSchedule")
    text = f"to be done {'by ' if wanted.finish_before else ''}{when}"
    left = seconds_since(wanted.finish_before, look.now)
    if left is not None:
        text += f" ({span(left)} {'left' if left < 0 else 'ago'})"
    return f"{text}: {state.message}" if state and state.message else text


def _losses(job: Job, look: Look) -> str:
    taken, failed = job.status.interruptions, job.status.restarts
    parts = []
    if taken.count:
        text = things(taken.count, "worker") + " taken away"
        if taken.lost_steps:
            text += f", {things(taken.lost_steps, 'step')} done again"
        if last := taken.last:
            where = f" on {last.node}" if last.node else ""
            text += f"; last {age(last.time, look.now)} ago: {last.reason}{where}"
        parts.append(text)
    if failed.failures:
        why = f", last: {failed.last_reason}" if failed.last_reason else ""
        parts.append(things(failed.failures, "failure") + why)
    return "; ".join(parts)


def _workers(workers: Sequence[Worker], look: Look) -> list[str]:
    if not workers:
        return []
    rows = [_worker_row(one, look) for one in workers[:MOST_WORKERS]]
    lines = table(_WORKER_COLUMNS, rows, look)
    if len(workers) > MOST_WORKERS:
        lines.append(f"and {len(workers) - MOST_WORKERS} more")
    return lines


def _worker_row(one: Worker, look: Look) -> tuple[str | Cell, ...]:
    is_well = one.state == "Running"
    colour = None if is_well else "yellow" if one.state in ("Starting", "Leaving") else "red"
    return (
        "-" if one.rank is None else str(one.rank),
        str(one.worker_id),
        Cell(one.state, colour),
        one.capacity,
        plain_usd(one.usd_per_hour),
        one.node,
        one.zone,
        one.machine,
        age(one.created, look.now),
        one.pod,
    )


def _worlds(events: Sequence[EventObject], look: Look) -> list[str]:
    """Return the last worlds, from Events: a cluster keeps those for an hour."""
    told = [one for one in events if one.note.startswith("world ")]
    if not told:
        return []
    lines = [look.paint("Worlds (of the last hour)", "bold")]
    for one in told[-MOST_DECISIONS:]:
        at = _clock(one.event_time or one.deprecated_last_timestamp, look)
        lines += look.filled(one.note, f"  {at}  ", " " * 12)
    return lines


def _decisions(job: Job, look: Look) -> list[str]:
    made = job.status.decisions
    if not made:
        return []
    lines = [look.paint("Decisions, the newest last", "bold")]
    for one in made[-MOST_DECISIONS:]:
        lines += look.filled(f"{one.what}: {one.why}", f"  {_clock(one.time, look)}  ", " " * 12)
    return lines


def _next(job: Job, look: Look) -> list[str]:
    found = troubles(job)
    name = job.metadata.name
    lines = [look.paint("What to do next", "bold")]
    for one in found:
        text = f"{one.title}: {one.advice}" if one.advice else f"{one.title}: {one.message}"
        lines += look.filled(text, "  * ", "    ")
    if job.status.phase == Phase.SUCCEEDED:
        lines.append(f"  * nothing: it is done. `kubectl tjob cost {name}` has the bill")
    elif not found:
        lines.append(f"  * nothing. `kubectl tjob logs {name} -f` shows what it says")
    return lines


def _clock(text: str | None, look: Look) -> str:
    """Write the time of day in UTC, as logs do; the date if it is another day."""
    at = moment(text)
    if at is None:
        return "--:--:--"
    is_today = (look.now - at).total_seconds() < _DAY_SECONDS
    return f"{at:%H:%M:%S}" if is_today else f"{at:%d %b}  "


def _short(text: str) -> str:
    return f"{float(text):.3g}" if float(text) < 1000 else f"{float(text):,.0f}"
