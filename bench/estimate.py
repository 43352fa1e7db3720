"""What `kubectl tjob estimate` takes: CPU seconds for one replay of a job of 16 workers.

The job is examples/auto-scaling.yaml with the 12 h of work that its comment names, on the recorded
market that has nodes enough, from moments spread evenly over it, in one process.

Run as `.venv/bin/python bench/estimate.py [--quick]`; one JSON line.
"""

import argparse
import time
from pathlib import Path

from bench.operator_bench import say
from spotrun.cli import estimate as flags
from spotrun.simulate import estimate
from spotrun.simulate.runs import Case, Starts, run

JOB = Path(__file__).parents[1] / "examples" / "auto-scaling.yaml"


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one replay of an hour of work")
    quick = parser.parse_args().quick
    seconds = replays("1", 1) if quick else replays("12", 6)
    say("estimate_cpu_seconds_per_replay", seconds, "s")


def replays(work_hours: str, starts: int) -> list[float]:
    """Replay the job; returns what each replay took."""
    parser = argparse.ArgumentParser()
    flags.describe(parser)
    asked = ["-f", str(JOB), "--work-hours", work_hours, "--starts", str(starts)]
    question = estimate.understand(parser.parse_args(asked))
    return [_seconds(stage.case, tick) for stage in question.stages for tick in stage.ticks]


def _seconds(case: Case, tick: int) -> float:
    began = time.process_time()
    run("spotrun", case, Starts(tick))
    return time.process_time() - began


if __name__ == "__main__":
    main()
