"""The cost of `kubectl tjob estimate`: CPU seconds of one replay of a job of 16 workers.

The job is examples/auto-scaling.yaml with the 12 h of work that its comment names, on the recorded
market with enough nodes, from starts spread evenly over it, in one process; and the same with a
deadline of twice that time, which maxUsdPerHour lets it meet from some of these starts only.

Run as `.venv/bin/python bench/estimate.py [--quick]`; JSON lines.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.operator_bench import say
from spotrun.cli.replay import estimate_flags as flags
from spotrun.simulate.estimate import command
from spotrun.simulate.replay_runs import Case, Starts, run

JOB = Path(__file__).parents[1] / "examples" / "auto-scaling.yaml"


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one replay of an hour of work")
    quick = parser.parse_args().quick
    work_hours, starts = (1, 1) if quick else (12, 6)
    say("estimate_cpu_seconds_per_replay", replays(JOB, work_hours, starts), "s")
    with TemporaryDirectory() as folder:
        job = Path(folder) / "with-deadline.yaml"
        job.write_text(f"{JOB.read_text()}  deadline:\n    finishWithin: {2 * work_hours}h\n")
        say("estimate_deadline_cpu_seconds_per_replay", replays(job, work_hours, starts), "s")


def replays(job: Path, work_hours: int, starts: int) -> list[float]:
    """Replay a job; returns the duration of each replay."""
    parser = argparse.ArgumentParser()
    flags.describe(parser)
    asked = ["-f", str(job), "--work-hours", str(work_hours), "--starts", str(starts)]
    question = command.understand(parser.parse_args(asked))
    return [_seconds(stage.case, tick) for stage in question.stages for tick in stage.ticks]


def _seconds(case: Case, tick: int) -> float:
    began = time.process_time()
    run("spotrun", case, Starts(tick))
    return time.process_time() - began


if __name__ == "__main__":
    main()
