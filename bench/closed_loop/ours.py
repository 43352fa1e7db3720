"""Our own policy in the loop: the operator's data, and the result of its `choose_size`."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bench.closed_loop.loop import Look, Task
from bench.closed_loop.peers import TARGET
from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.observe.telemetry.step_windows import Windows
from spotrun.policies.scaling.facts import Cap, Gauge, SizingFacts, StepTimes
from spotrun.policies.scaling.gather import IN_PROCESS_STALL_SECONDS
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.state.snapshot import Reading
from spotrun.state.stored.scaling import NO_SCALING, ScalingState
from spotrun.wire import Progress, Utilization

_ASK_SECONDS = 60.0
_ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Wishes:
    """A user's wishes, as written under `scaling`."""

    hour_worth_usd: float | None = None
    min_efficiency: float = 0.6


@dataclass
class Spotrun:
    """The operator's part of the loop."""

    task: Task
    wishes: Wishes
    stall_seconds: float
    changeover_seconds: float
    keeps_state: bool = True
    is_gang: bool = False
    every_seconds: float = 15.0  # interval of the agents' reports
    num_passing: int = 0  # changes of size for a trial of a larger size, and back
    _looked_from: int = 0
    _size: int = 0
    _memory: ScalingState = NO_SCALING
    _ask_at: float = 0.0
    _windows: Windows = field(default_factory=Windows)

    def wanted(self, look: Look) -> int:
        """Return the value of `spec.workers.replicas` now."""
        self._hear(look)
        if look.now >= self._ask_at:
            self._ask(look)
        return self._size

    def _ask(self, look: Look) -> None:
        choice = choose_size(self._facts(look), self._memory, _ORIGIN + _seconds(look.now))
        if choice.size != self._size:
            is_look = choice.reason is ScalingReason.PROBING
            self.num_passing += is_look or choice.size == self._looked_from
            self._looked_from = self._size if is_look else 0
        self._size, self._memory = choice.size, choice.memory
        self._ask_at = look.now + min(choice.wake_after_seconds or _ASK_SECONDS, _ASK_SECONDS)

    def _hear(self, look: Look) -> None:
        """Process the report of an agent."""
        recent, steps = look.recent, look.steps_here
        if recent is None:
            return
        samples = steps * self.task.samples
        progress = Progress(
            world_number=look.world,
            step=steps,
            samples=samples,
            step_seconds=recent.step_seconds,
            compute=recent.compute,
            data=recent.data,
            communicate=recent.communicate,
        )
        self._windows.take(progress, Utilization(gpu=recent.compute))

    def _facts(self, look: Look) -> SizingFacts:
        task, reading = self.task, self._windows.reading()
        is_known = reading.is_enough and reading.world_number == look.world
        gpu = reading.utilization.gpu if is_known else None
        reported = (gpu,) * look.training if gpu is not None else ()
        return SizingFacts(
            sizes=task.sizes,
            wanted=self._size or task.least,
            running=look.training,
            gauges=(
                Gauge(
                    TargetResource.GPU,
                    TARGET,
                    reported=reported,
                    silent=look.training - len(reported),
                ),
            ),
            step=_step(look.training, reading) if is_known else None,
            microbatches=task.microbatches,
            usd_per_hour=look.usd_per_hour,
            hour_worth_usd=self.wishes.hour_worth_usd,
            min_efficiency=self.wishes.min_efficiency,
            remaining_samples=look.remaining_steps * task.samples,
            stall_seconds=IN_PROCESS_STALL_SECONDS,
            changeover_seconds=self.changeover_seconds,
            life_seconds=look.life_seconds,
            caps=(Cap(look.placed, ScalingReason.NO_CAPACITY),) if look.waiting else (),
        )


def _step(training: int, reading: Reading) -> StepTimes:
    seconds, samples = reading.step_seconds, reading.samples_per_step
    assert seconds is not None, "all windows have it"
    assert samples is not None, "all windows have it"
    shares = (reading.compute, reading.data, reading.communicate)
    return StepTimes(training, seconds, samples, *shares)


def _seconds(moment: float) -> timedelta:
    return timedelta(seconds=moment)
