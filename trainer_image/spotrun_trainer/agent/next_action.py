"""The next action of a worker: pure functions of what its agent knows."""

from dataclasses import dataclass, field
from typing import Final

from spotrun.wire import Answer, Ending, How, LastWords, Stage, World, batch_change
from spotrun_trainer.process.progress_report import TrainerProgress

LEFT_OUT_SECONDS: Final = 2.0
"""A worker without a rank in the newest world stops only after this: the caches of a new leader may
be a moment behind, and a needless stop costs the whole world a restart."""
HANGS_SECONDS: Final = 10.0
"""A process that was left out of the next world stops by itself, at the latest after a microbatch.
One that has not stopped by then hangs."""

_OVER = frozenset({"Succeeded", "Failed"})
_GOING_ON = frozenset({"Starting", "Running", "Recovering"})


@dataclass(frozen=True)
class Known:
    """Everything that the next action depends on."""

    answer: Answer | None  # the newest; None before there is one
    entered: int = 0  # the newest world that its processes started for, or joined
    stage: Stage | None = None  # of that world; None: the training has no stages
    progress: TrainerProgress = field(default_factory=TrainerProgress)
    saves_on_order: bool = False  # its processes save on order, or those before them did
    placeless_seconds: float = 0.0  # since the first answer without a world for it
    clinging_seconds: float = 0.0  # since its process stayed in a world that the others left
    away_seconds: float = 0.0  # since the operator's last answer
    give_up_seconds: float = 3600.0
    job_is_gone: bool = False
    is_out_of_time: bool = False  # stopAt has passed without an answer


def place(world: World) -> int:
    """Return a worker's index among the workers of its world; ranks count processes."""
    return world.rank // world.processes


def workers(world: World) -> int:
    """Return the number of workers in a world that this worker is in."""
    return world.size // world.processes


def batch_words(world: World) -> str:
    """Say what another number of processes means to a script without `Run`; empty if nothing.

    The first worker says it for all.
    """
    if not world.trained or world.trained == world.size or world.rank:
        return ""
    return batch_change(world.trained, world.size, "processes")


def next_world(known: Known) -> World | LastWords | None:
    """Return the world that a waiting worker enters, or why it ends; None: it keeps waiting."""
    ending = _ending(known)
    if ending is not None:
        return ending
    world = known.answer.world if known.answer is not None else None
    if world is None or not world.processes or world.store is None:
        return None
    if not world.switch and world.how is How.RESTART:
        return None
    # A world prepared for a step boundary is entered early, to warm up while the others train.
    return world if world.number > known.entered else None


def must_stop(known: Known) -> bool:
    """Whether a worker's processes must be stopped, for another world or for good."""
    if _waits_warm(known.progress) and _ending(known) is not None:
        return True
    if known.answer is None:
        return False
    if known.clinging_seconds > HANGS_SECONDS + 2 * (known.progress.step_seconds or 0.0):
        return True
    world = known.answer.world
    if world is None:
        return _is_left_out(known, known.answer)
    if world.number <= known.entered or not world.switch:
        return False
    return world.how is How.RESTART or not known.progress.in_process


def is_called_back(known: Known) -> bool:
    """Whether processes that ended well are needed in the next world.

    A script that learns of a change from a peer ends before its own agent stops it.
    """
    world = known.answer.world if known.answer is not None else None
    if world is None or not world.processes:
        return False
    is_done = known.saves_on_order or known.progress.completed
    if is_done and not changes_stage(known):
        return False  # a training under `Run` reports itself whether it is complete
    return must_stop(known)


def waits_for_next_stage(known: Known) -> bool:
    """Whether processes that ended well are followed by those of another stage."""
    has_next = known.stage is not None and not known.stage.is_last
    return has_next and not has_succeeded(known)


def changes_stage(known: Known) -> bool:
    """Whether the next world is one of another stage."""
    world = known.answer.world if known.answer is not None else None
    if world is None or world.stage is None or known.stage is None:
        return False
    return world.number > known.entered and world.stage.index != known.stage.index


def may_save(known: Known) -> bool:
    """Whether processes that must be stopped get a SIGTERM first, and time to save.

    They get none after the loss of a member, because without it they hang, whether or not there is
    another world. A trainer that saves on order has saved already.
    """
    if known.answer is None or is_urgent(known):
        return False
    if changes_stage(known) and known.progress.completed:
        return True  # what follows the loop in a script belongs to its stage
    if known.saves_on_order:
        return False
    return known.answer.world is not None or known.answer.planned


def is_urgent(known: Known) -> bool:
    """Whether the time that processes were given to save is over.

    A loss among the others does not hurry a worker that is in no world: no worker waits for it.
    """
    world = known.answer.world if known.answer is not None else None
    return known.job_is_gone or (world is not None and world.processes > 0 and not world.planned)


def saves_on_order(progress: TrainerProgress) -> bool:
    """Whether a trainer saves when a checkpoint is ordered: under `Run`, or if it reports so.

    A trainer that reports checkpoints also reads our files; steps may be counted from outside.
    """
    return progress.in_process or progress.saves_on_order or progress.checkpoint is not None


def clings(answer: Answer | None, progress: TrainerProgress) -> bool:
    """Whether a process is still in a world that the others have left without it."""
    newest = max(progress.world_number, progress.entering)
    is_in_one = progress.in_process and progress.left < newest
    return answer is not None and answer.left_out and is_in_one


def is_left_behind(known: Known) -> bool:
    """Whether the others continue in a world that this worker, which is done, cannot enter."""
    if known.away_seconds > known.give_up_seconds:
        return True  # and no answer will come
    if known.answer is None:
        return False
    world = known.answer.world
    if world is None:
        return _is_left_out(known, known.answer)
    return world.number > known.entered and world.switch


def has_succeeded(known: Known) -> bool:
    """Whether the operator says that the job has succeeded."""
    return known.answer is not None and known.answer.phase == "Succeeded"


def is_saved(known: Known) -> bool:
    """Whether the training is complete and saved, so that the others can only repeat it."""
    return known.progress.completed and known.progress.checkpoint is not None


def end_by_signal(known: Known) -> LastWords:
    """Return the last words of a worker that was ended by SIGTERM."""
    if known.progress.exiting is not None:
        return words(Ending(known.progress.exiting), known)
    if known.is_out_of_time:
        return words(Ending.DEPARTED, known, "no answer from the operator by stopAt")
    if known.job_is_gone or not _is_wanted(known.answer):
        return words(Ending.DEPARTED, known, "this worker was told to end")
    return words(
        Ending.PREEMPTED, known, "the worker got a SIGTERM that the operator had not announced"
    )


def _waits_warm(progress: TrainerProgress) -> bool:
    """Whether its processes only wait, ready, for a world, so that stopping them loses nothing."""
    return progress.ready and progress.exiting is None and progress.broken >= progress.world_number


def _ending(known: Known) -> LastWords | None:
    if known.progress.exiting is not None:
        return words(Ending(known.progress.exiting), known)
    if known.job_is_gone:
        return words(Ending.DEPARTED, known, "the job was deleted")
    if known.answer is not None and known.answer.phase in _OVER:
        return words(Ending.DEPARTED, known, f"the job has {known.answer.phase.lower()}")
    if known.away_seconds > known.give_up_seconds:
        why = (
            f"no answer from the operator for {known.away_seconds:.0f} s, and this worker does not "
            "train: it gives up (SPOTRUN_GIVE_UP_SECONDS). Look at the operator's log and at the "
            "network"
        )
        return words(Ending.FAILED, known, why, exit_code=1)
    return None


def words(
    reason: Ending, known: Known, message: str = "", *, exit_code: int | None = None
) -> LastWords:
    """Return last words that say how far the training was."""
    progress = known.progress
    return LastWords(reason, progress.step or None, progress.checkpoint, exit_code, message)


def _is_wanted(answer: Answer | None) -> bool:
    """Whether the operator's newest answer still has this worker in a world."""
    if answer is None or answer.world is None or answer.phase not in _GOING_ON:
        return False
    return answer.world.processes > 0


def _is_left_out(known: Known, answer: Answer) -> bool:
    if known.progress.in_process:
        return False  # it leaves at a step boundary and is warm for the next world
    return answer.phase in _GOING_ON and known.placeless_seconds > LEFT_OUT_SECONDS
