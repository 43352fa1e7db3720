"""The cost of a check of devices, and the steps until it finds a device with wrong numbers.

    check_step_ratio     the time of a step with a check, compared with one without: each process
                         has eight microbatches of its own, and computes a ninth
    check_found_steps    the steps from the first wrong gradient until that process has ended
    check_false_alarms   disputes about a microbatch in trainings without a fault
    speed_check_seconds  what the check of speeds before the first step takes, with three processes

A small perceptron in deterministic mode, on CPUs, summed by gloo over loopback. For the first
figure two processes check every second step. For the second one three processes check every tenth
step (`--every`), and in one of them one bit of each gradient is wrong from a random step on.

Run as `.venv/bin/python bench/device_check.py [--quick] [--repeats 5] [--every 10]`.
"""

import argparse
import os
import random
import re
import time
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer import Run
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import loop
from spotrun_trainer.loop.speed_check import check_speeds
from tests.support.processes.trainer_world import OWN_WORKER, run_world

MICROBATCHES, MICROBATCH, FEATURES, CLASSES = 16, 16, 256, 10
WIDTH = 1024
FIRST_STEPS = 5  # not measured
NEVER = 10**9
DISPUTE = re.compile(r"have different gradients of microbatch \d+ in step (\d+)")


@dataclass(frozen=True)
class Plan:
    """The length of a training, and the step from which on rank 1 computes wrong numbers."""

    steps: int
    every: int
    wrong_from: int = NEVER
    checks_speed: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="12 steps, once")
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--steps", type=how_many, default=60)
    parser.add_argument("--every", type=how_many, default=10)
    arguments = parser.parse_args()
    repeats, steps = (1, 12) if arguments.quick else (arguments.repeats, arguments.steps)
    ratios, alarms = [], 0
    for _ in range(repeats):
        ended = run_world(2, train, Plan(steps, every=2))
        alarms += sum(len(DISPUTE.findall(one.said)) for one in ended)
        ratios.append(ratio(ended[0].value))
    say("check_step_ratio", ratios, "x", steps=steps, microbatches=MICROBATCHES)
    say("check_false_alarms", alarms, "disputes", steps=steps * repeats)
    worlds = [
        run_world(3, speed_check_seconds, by_rank=lambda _: OWN_WORKER) for _ in range(repeats)
    ]
    speeds = [ended[0].value for ended in worlds]
    say("speed_check_seconds", speeds, "s", processes=3)
    found = [steps_until_found(arguments.every, seed) for seed in range(repeats)]
    say("check_found_steps", found, "steps", every=arguments.every)


def speed_check_seconds() -> float:
    """Train a step, and return how long the check before it has taken."""
    took = []

    def timed(context: Context) -> None:
        begun = time.perf_counter()
        check_speeds(context)
        took.append(time.perf_counter() - begun)

    vars(loop)["check_speeds"] = timed
    train(Plan(1, every=NEVER, checks_speed=True))
    return took[0]


def ratio(seconds: list[float]) -> float:
    """Compare steps with a check, the even ones, with those without."""
    with_check, without = seconds[FIRST_STEPS::2], seconds[FIRST_STEPS + 1 :: 2]
    return median(with_check) / median(without)


def steps_until_found(every: int, seed: int) -> int:
    """Train with a device that is wrong from a random step on."""
    wrong_from = random.Random(seed).randint(2, 2 * every)  # noqa: S311 - the same in each run
    ended = run_world(3, train, Plan(10 * every, every, wrong_from))
    if "WrongDeviceError" not in ended[1].error:
        raise RuntimeError(f"rank 1 ended in another way: {ended[1].error}\n{ended[1].said}")
    return int(DISPUTE.findall(ended[0].said)[0]) - wrong_from


def train(plan: Plan) -> list[float]:
    """Return the seconds of each step."""
    torch.set_num_threads(1)
    run = Run(seed=1, deterministic=True, check_devices=plan.every, check_speed=plan.checks_speed)
    model = run.prepare(
        nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run.track(model=model, optimizer=optimizer)

    def computed(gradient: Tensor) -> Tensor:
        if os.environ["RANK"] != "1" or run.step + 1 < plan.wrong_from:
            return gradient
        gradient = gradient.clone()
        gradient.view(torch.int32).view(-1)[0] ^= 1 << 20
        return gradient

    next(model.parameters()).register_hook(computed)  # type: ignore[no-untyped-call]
    seconds = []
    batch = MICROBATCH * MICROBATCHES
    for step in run.steps(
        samples(), global_batch=batch, microbatch=MICROBATCH, total=plan.steps, num_workers=0
    ):
        began = time.perf_counter()
        with step:
            for x, y in step:
                step.backward(cross_entropy(model(x), y), mean_of=len(y))
            step.update(optimizer)
        seconds.append(time.perf_counter() - began)
    return seconds


def samples() -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(4096, FEATURES, generator=generator)
    return TensorDataset(features, torch.randint(0, CLASSES, (4096,), generator=generator))


if __name__ == "__main__":
    main()
