"""The time that a change holds a training up: ours beside stock torchrun, in one run.

The training is `bench/recovery_training.py`: 25 M parameters if nothing else is said, four loader
workers; ours runs under the operator's own code, on process nodes of devcluster. What a survivor
lost is the longest gap between two steps that it completed around the event, without the step that
it would have taken anyway; the figure is that of the survivor which lost most. `steps_lost` counts
completed steps that were computed again.

    node_lost_stall_seconds           all processes of a node get SIGKILL, and its Node object goes
    node_lost_silent_seconds          a node is stopped and says no more, as with a cable pulled
    node_shut_down_stall_seconds      its kubelet says no more, and all processes get SIGTERM
    worker_lost_stall_seconds         the training process of one worker gets SIGKILL
    shrink_stall_seconds              one worker less is wanted, and it leaves at the end of a step
    node_lost_stall_250m_over_microbatch_seconds  the first one, less a microbatch, with
                                      `--parameters 250` (or another size)
    growth_stall_seconds              one more; it gets warm, and the state, while others train
    node_lost_restart_seconds         the first two for a script that has only init_process_group:
    node_lost_silent_restart_seconds  from the loss to the first step of the smaller world; each
                                      worker's next process is ready, as it is 20 s after a start

The phases of a growth are those of the survivor which lost most: `formation`, from the end of its
last step in the old world until the new one is formed; `step`, from there to the end of its first
step, which it computes as in the old world; and `transfer`, how long the joining worker got the
state meanwhile, so that what the step does not hide of it is in `step`.

Stock torchrun (c10d) runs the same model in DDP, and the clock runs from the loss to the first step
of the smaller world. Its store lives in this process, which flatters it: in a cluster it lives in a
worker, and its loss ends the job. `stock` has torchrun's timers, `tuned` short ones: see TUNED.
torchft, where it is installed, loses a replica likewise, and the survivor's stall is measured as
ours. It learns of a loss by missed heartbeats alone: with its default, and with a tuned limit.

Run as `.venv/bin/python bench/recovery.py [--quick] [--repeats 3] [--only growth]
[--parameters 250]`.
"""

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench import recovery_torchft
from bench.operator_bench import say
from bench.recovery_events import EVENTS, Event, Kind, happen, until_begun_ahead
from bench.recovery_growth import phases_of_growth
from bench.recovery_stock import (
    TRAINING,
    TUNED,
    WARM_SECONDS,
    first_step,
    prepare,
    stock,
    trains,
)
from bench.recovery_training import layers_of, millions
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from spotrun_trainer.telemetry import timeline
from tests.integration.trainer.helpers import open_telling_place
from tests.integration.trainer.traces import Trace
from tests.support.cluster.operator_world import install_crds

SETTLE_STEPS = 5  # after it
USUAL_PARAMETERS_M = 25.0
NOTES_FILE, IT_HAPPENS = "operator.jsonl", "it happens"


@dataclass(frozen=True)
class Held:
    """The cost of an event."""

    seconds: float
    step_seconds: float  # of a usual step afterwards
    microbatch_seconds: float  # of a usual one afterwards, of a script with `Run`
    shared_seconds: float  # by which microbatches were slower while more processes shared the cores
    steps_lost: int
    phases: dict[str, float]


@dataclass(frozen=True)
class Bench:
    """The surroundings of a measurement: the cluster, a folder, and the size of the model."""

    cluster: Cluster
    folder: Path
    parameters_m: float
    begins_anew: bool  # a step in which a worker was lost, for comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one event of each kind, no stock timers"
    )
    parser.add_argument("--repeats", type=how_many, default=3)
    parser.add_argument("--only", default="", help="part of a metric's name")
    parser.add_argument(
        "--parameters", type=millions, default=USUAL_PARAMETERS_M, help="of the model, in millions"
    )
    parser.add_argument(
        "--anew", action="store_true", help="drop the whole step at a loss, for comparison"
    )
    parser.add_argument("--keep", type=Path, help="a folder for all traces, to draw pictures of")
    arguments = parser.parse_args()
    events = [event for event in EVENTS if arguments.only in event.kind]
    if arguments.quick:
        events = list({event.kind: event for event in reversed(events)}.values())
        arguments.repeats = 1
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        folder = arguments.keep or Path(scratch)
        bench = Bench(cluster, folder, arguments.parameters, arguments.anew)
        asyncio.run(measure(bench, events, arguments.repeats))
        if not arguments.only:
            measure_peers(Path(scratch), layers_of(bench.parameters_m), arguments)


def measure_peers(scratch: Path, layers: int, arguments: argparse.Namespace) -> None:
    repeats = range(arguments.repeats)
    timers = {"tuned": TUNED} if arguments.quick else {"tuned": TUNED, "stock": ""}
    for name, conf in timers.items():
        took = [stock(scratch, conf, layers) for _ in repeats]
        say(f"node_lost_{name}_seconds", took, "s", workers=2, to="first step")
    if not recovery_torchft.is_installed():
        print("torchft is left out: it is not installed (pip install torchft)", file=sys.stderr)
        return
    for name, heartbeat_ms in recovery_torchft.HEARTBEATS_MS.items():
        took = [recovery_torchft.lose_a_replica(scratch, heartbeat_ms, layers) for _ in repeats]
        say(f"node_lost_{name}_stall_seconds", took, "s", workers=2, heartbeat_ms=heartbeat_ms)


async def measure(bench: Bench, events: list[Event], repeats: int) -> None:
    steps_lost: list[float] = []
    for event in events:
        held: list[Held] = []
        for repeat in range(repeats):
            folder = bench.folder / f"{event.kind.name}-{event.workers}-{event.rank}-{repeat}"
            held.append(await disturb(bench, folder, event))
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        if not event.kind.restarts:
            steps_lost += [one.steps_lost for one in held]
        names = dict.fromkeys(name for one in held for name in one.phases)
        say(
            event.kind,
            [one.seconds for one in held],
            "s",
            workers=event.workers,
            rank=event.rank,
            parameters_m=bench.parameters_m,
            step_seconds=round(median(one.step_seconds for one in held), 3),
            microbatch_seconds=round(median(one.microbatch_seconds for one in held), 3),
            begins_anew=bench.begins_anew,
            phases={
                name: round(median(one.phases[name] for one in held if name in one.phases), 2)
                for name in names
            },
        )
        if event.kind is Kind.NODE_LOST and bench.parameters_m != USUAL_PARAMETERS_M:
            say(
                f"node_lost_stall_{bench.parameters_m:g}m_over_microbatch_seconds",
                [one.seconds - one.microbatch_seconds for one in held],
                "s",
                workers=event.workers,
                rank=event.rank,
                shared_seconds=[round(one.shared_seconds, 2) for one in held],
                begins_anew=bench.begins_anew,
            )
    if steps_lost:
        say("steps_lost", steps_lost, "steps", worst=max(steps_lost))


async def disturb(bench: Bench, folder: Path, event: Event) -> Held:
    """Train, let it happen, and return what it cost."""
    prepare(folder)
    way = "ddp" if event.kind.restarts else "run"
    async with open_telling_place(bench.cluster, folder) as place:
        most = max(event.workers, event.workers_after)
        await place.add_nodes(*(f"n{number}" for number in range(most)))
        await place.start(
            TRAINING,
            way,
            folder,
            "--layers",
            layers_of(bench.parameters_m),
            *(["--anew"] if bench.begins_anew else []),
            workers=event.workers,
            sizes={"min": 1, "max": most},
            env={"SPOTRUN_TRACE": str(folder / "phases")},
        )
        async with place.operator() as operator:
            await place.until_trace(trains(event.workers))
            await place.until_trace(trains(event.workers, time.time() + WARM_SECONDS))
            if event.kind.restarts:
                await until_begun_ahead(place, folder / "phases", event.workers)
            # A new leader concludes nothing from silence, for a minute after it began to lead.
            operator._leading_since -= 100  # noqa: SLF001
            with notes(folder / NOTES_FILE) as note:
                began = time.time()
                note(began, IT_HAPPENS)
                await happen(place, event)
                await place.until_trace(trains(event.workers_after, began))
            for _ in range(SETTLE_STEPS):
                await place.until_trace(trains(event.workers_after, time.time()))
            lines = place.trace()
    return held(lines, event, began, folder / "phases")


@contextmanager
def notes(file: Path) -> Iterator[Callable[[float, str], None]]:
    """Note what the operator says; the function that this gives notes anything else."""
    with file.open("a") as lines:

        def note(at: float, said: str) -> None:
            lines.write(json.dumps({"t": at, "said": said}) + "\n")

        handler = logging.Handler()
        handler.emit = lambda record: note(record.created, record.getMessage())  # type: ignore[method-assign]
        log = logging.getLogger("spotrun.runtime.reconciler")
        log.setLevel(logging.INFO)
        log.addHandler(handler)
        try:
            yield note
        finally:
            log.removeHandler(handler)


def held(lines: Trace, event: Event, began: float, phases: Path) -> Held:
    """Measure the time around an event in which survivors did not train."""
    after = [line for line in lines if line["size"] == event.workers_after]
    after = [line for line in after if line["time"] > began]
    survivors = {line["pid"] for line in after}
    back_at = first_step(lines, event.workers_after, began)
    before = max(line["step"] for line in lines if line["time"] < began)
    lost = max(0, before + 1 - min(line["step"] for line in after))
    step_seconds = median(
        late["time"] - early["time"]
        for pid in survivors
        for early, late in pairwise([line for line in after if line["pid"] == pid])
    )
    if event.kind is Kind.GROWTH:
        parts = phases_of_growth(lines, phases, event.workers_after, began)
    else:
        parts = split(phases, began, back_at)
    microbatch_seconds = median(line.get("microbatch_seconds", 0.0) for line in after)
    shared = shared_seconds(lines, survivors, began, microbatch_seconds)
    if event.kind.restarts:
        return Held(back_at - began, step_seconds, microbatch_seconds, shared, lost, parts)
    gaps = [
        late["time"] - early["time"]
        for pid in survivors
        for early, late in pairwise([line for line in lines if line["pid"] == pid])
        if began < late["time"] <= back_at
    ]
    return Held(max(gaps) - step_seconds, step_seconds, microbatch_seconds, shared, lost, parts)


def shared_seconds(lines: Trace, survivors: set[int], began: float, usual: float) -> float:
    """Return how much longer the microbatches took that survivors had finished in the broken step.

    All processes share this machine, so they are slower the more there are. What is measured as a
    stall contains that, for a step of the smaller world is subtracted.
    """
    before = [line for line in lines if line["pid"] in survivors and line["time"] < began]
    each = median(line.get("microbatch_seconds", 0.0) for line in before)
    if not each:
        return 0.0
    elapsed = began - max(line["time"] for line in before)
    return float(elapsed // each * (each - usual))


def split(folder: Path, lost_at: float, back_at: float) -> dict[str, float]:
    """Split the recovery of the worker that was back last into its phases."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in timeline.read(file)]
    recent = [one for one in timeline.recoveries(lines) if max(one.at.values()) > lost_at]
    if not recent:
        return {}
    at = min(recent, key=lambda one: abs(max(one.at.values()) - back_at)).at
    marks = [mark for mark in timeline.PHASES if mark in at and at[mark] > lost_at]
    before, parts = lost_at, {}
    for mark in marks:
        parts[mark] = at[mark] - before
        before = at[mark]
    return parts


if __name__ == "__main__":
    main()
