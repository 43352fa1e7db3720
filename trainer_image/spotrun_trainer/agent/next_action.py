"""What a worker does next: pure functions of what its agent knows."""

from dataclasses import dataclass, field
from typing import Final

from spotrun.wire import Answer, Ending, How, LastWords, World
from spotrun_trainer.process.ipc_files import TrainerProgress

LEFT_OUT_SECONDS: Final = 2.0
"""A worker that is told of no place stops only after this: the caches of a new leader may be a
moment behind, and to stop in vain costs the whole world a restart."""
HANGS_SECONDS: Final = 10.0
"""A process that others went on without breaks off by itself, at the latest after a microbatch. One
that has not by then hangs."""

_OVER = frozenset({"Succeeded", "Failed"})
_GOING_ON = frozenset({"Starting", "Running", "Recovering"})


@dataclass(frozen=True)
class Known:
    """All that a move depends on."""

    answer: Answer | None  # the newest; None before there is one
    entered: int = 0  # the newest generation that the processes were started for, or went to meet
    progress: TrainerProgress = field(default_factory=TrainerProgress)
    saves_on_order: bool = False  # its processes do, or those before them did
    placeless_seconds: float = 0.0  # since it was first told of no place in any world
    clinging_seconds: float = 0.0  # since the others went on without its process, which has not
    away_seconds: float = 0.0  # since the operator was heard last
    give_up_seconds: float = 3600.0
    job_is_gone: bool = False
    is_out_of_time: bool = False  # stopAt has passed without a word


def place(world: World) -> int:
    """Where a worker stands among the workers of its world; its rank is that of a process."""
    return world.rank // world.processes


def workers(world: World) -> int:
    """How many workers a world has that this one is in."""
    return world.size // world.processes


def next_world(known: Known) -> World | LastWords | None:
    """Of a worker that waits: the world to enter, or why it ends; None: it waits on."""
    ending = _ending(known)
    if ending is not None:
        return ending
    world = known.answer.world if known.answer is not None else None
    if world is None or not world.processes or world.store is None:
        return None
    if not world.switch and world.how is How.RESTART:
        return None
    # One that is prepared for a boundary is entered, too: to get warm while the others train.
    return world if world.generation > known.entered else None


def must_stop(known: Known) -> bool:
    """Of a worker with processes: whether they are to be stopped, for another world or for good."""
    if _waits_warm(known.progress) and _ending(known) is not None:
        return True
    if known.answer is None:
        return False
    if known.clinging_seconds > HANGS_SECONDS + 2 * (known.progress.step_seconds or 0.0):
        return True
    world = known.answer.world
    if world is None:
        return _is_left_out(known, known.answer)
    if world.generation <= known.entered or not world.switch:
        return False
    return world.how is How.RESTART or not known.progress.in_process


def may_save(known: Known) -> bool:
    """Whether processes that are to be stopped are told so, and have time to save.

    Where a member was lost they hang in its absence and the others wait; and who saves when ordered
    has done so.
    """
    if known.saves_on_order or known.answer is None or known.job_is_gone:
        return False
    world = known.answer.world
    return world is None or not world.processes or world.planned


def saves_on_order(progress: TrainerProgress) -> bool:
    """Whether a trainer saves when a checkpoint is ordered: under `Run`, or as it says itself.

    Who names checkpoints follows our files, too; steps alone can be counted from outside.
    """
    return progress.in_process or progress.saves_on_order or progress.checkpoint is not None


def clings(answer: Answer | None, progress: TrainerProgress) -> bool:
    """Whether a process still is in a world that the others have left, without it."""
    is_in_one = progress.in_process and progress.left < max(progress.generation, progress.entering)
    return answer is not None and answer.left_out and is_in_one


def is_left_behind(known: Known) -> bool:
    """Of a worker that is done: whether the others go on in a world that it cannot enter."""
    if known.away_seconds > known.give_up_seconds:
        return True  # and nobody will tell
    if known.answer is None:
        return False
    world = known.answer.world
    if world is None:
        return _is_left_out(known, known.answer)
    return world.generation > known.entered and world.switch


def has_succeeded(known: Known) -> bool:
    """Whether the operator says that the job has."""
    return known.answer is not None and known.answer.phase == "Succeeded"


def is_saved(known: Known) -> bool:
    """Of a worker that is done: whether all of the training is, and others can only repeat it."""
    return known.progress.completed and known.progress.checkpoint is not None


def end_by_signal(known: Known) -> LastWords:
    """The last words of a worker that was told to end by SIGTERM."""
    if known.progress.exiting is not None:
        return words(Ending(known.progress.exiting), known)
    if known.is_out_of_time:
        return words(Ending.DEPARTED, known, "no word from the operator by stopAt")
    if known.job_is_gone or not _is_wanted(known.answer):
        return words(Ending.DEPARTED, known, "it was told to end")
    return words(Ending.PREEMPTED, known, "SIGTERM came without a word from the operator")


def _waits_warm(progress: TrainerProgress) -> bool:
    """Whether its processes wait for a world, ready for it: nothing is lost with them."""
    return progress.ready and progress.exiting is None and progress.broken >= progress.generation


def _ending(known: Known) -> LastWords | None:
    if known.progress.exiting is not None:
        return words(Ending(known.progress.exiting), known)
    if known.job_is_gone:
        return words(Ending.DEPARTED, known, "the job was deleted")
    if known.answer is not None and known.answer.phase in _OVER:
        return words(Ending.DEPARTED, known, f"the job has {known.answer.phase.lower()}")
    if known.away_seconds > known.give_up_seconds:
        why = (
            f"no answer from the operator for {known.away_seconds:.0f} s, and nothing trains here: "
            "given up (SPOTRUN_GIVE_UP_SECONDS). Look at the operator's log and at the network"
        )
        return words(Ending.FAILED, known, why, exit_code=1)
    return None


def words(
    reason: Ending, known: Known, message: str = "", *, exit_code: int | None = None
) -> LastWords:
    """Last words with how far the training was."""
    progress = known.progress
    return LastWords(reason, progress.step or None, progress.checkpoint, exit_code, message)


def _is_wanted(answer: Answer | None) -> bool:
    """Whether the operator still counts on this worker, as far as it has said."""
    if answer is None or answer.world is None or answer.phase not in _GOING_ON:
        return False
    return answer.world.processes > 0


def _is_left_out(known: Known, answer: Answer) -> bool:
    if known.progress.in_process:
        return False  # it leaves by itself, at a boundary, and is warm for the next world
    return answer.phase in _GOING_ON and known.placeless_seconds > LEFT_OUT_SECONDS
