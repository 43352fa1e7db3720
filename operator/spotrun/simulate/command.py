"""`spotrun simulate`: from flags to output."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spotrun.simulate import replay_runs
from spotrun.simulate.market import trace
from spotrun.simulate.market.virtual_market import Prices, Recordings
from spotrun.simulate.outcome import Outcome
from spotrun.simulate.scenario import Job, Observe, Rules

_HOUR, _MINUTE = 3600.0, 60.0


@dataclass(frozen=True)
class Question:
    """The request on a command line."""

    policy: str
    case: replay_runs.Case
    starts: replay_runs.Starts
    as_json: bool


def understand(chosen: Namespace) -> Question:
    """Read flags and recordings; raises ValueError with what is wrong with them."""
    rules = _rules(chosen)
    prices = Prices(chosen.spot_price, chosen.on_demand_price)
    recordings = Recordings([trace.read(file) for file in chosen.traces], rules, prices)
    question = Question(
        policy=chosen.policy,
        case=replay_runs.Case(_job(chosen), recordings, rules),
        starts=_starts(chosen),
        as_json=chosen.json,
    )
    replay_runs.check(question.policy, question.case, question.starts)
    return question


def run(question: Question) -> int:
    """Replay and print."""
    starts = question.starts
    outcomes = replay_runs.run(question.policy, question.case, starts, _progress(starts))
    answer = replay_runs.as_json(outcomes, starts)
    print(json.dumps(answer) if question.as_json else _table(answer))
    return 0


def _starts(chosen: Namespace) -> replay_runs.Starts:
    if (chosen.starts > 1) != (chosen.every is not None):
        raise ValueError("--every and --starts go together, as in --every 443 --starts 12")
    return replay_runs.Starts(chosen.start_tick, chosen.every or 1, chosen.starts)


def _job(chosen: Namespace) -> Job:
    full = chosen.workers
    least = full if chosen.min_workers is None else chosen.min_workers
    most = full if chosen.max_workers is None else chosen.max_workers
    if not least <= full <= most:
        raise ValueError(
            f"--min-workers {least}, --workers {full} and --max-workers {most} must ascend"
        )
    return Job(chosen.work_hours * _HOUR, chosen.deadline_hours * _HOUR, full, least, most)


def _rules(chosen: Namespace) -> Rules:
    return Rules(
        changeover_seconds=chosen.changeover_minutes * _MINUTE,
        checkpoint_seconds=chosen.checkpoint_minutes * _MINUTE,
        observe=Observe(chosen.observe),
        assume_capacity=chosen.assume_capacity,
        on_demand_dry_rate=chosen.on_demand_dry_rate,
    )


def _progress(starts: replay_runs.Starts) -> Callable[[int, Outcome], None]:
    """Return a function that prints the progress: twelve starts may take half a minute."""

    def show(number: int, outcome: Outcome) -> None:
        if starts.number > 1 and sys.stderr.isatty():
            end = "\n" if number == starts.number else ""
            line = f"{number}/{starts.number} starts replayed, the last for ${outcome.cost_usd:.2f}"
            print(f"\r{line}", end=end, file=sys.stderr, flush=True)

    return show


def _table(answer: Mapping[str, Any]) -> str:
    """Return a text for people: the values of one replay, or the means of several."""
    figures = [(name, value) for name, value in answer.items() if name != "runs"]
    width = max(len(name) for name, _ in figures)
    return "\n".join(
        f"{name.replace('_', ' '):{width}}  {_shown(value)}" for name, value in figures
    )


def _shown(value: object) -> str:
    if value is None:
        return "never"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
