"""Scripts that work at one size only: their refusal of another one is no failure.

A configuration that says how many nodes there are, or a checkpoint that only as many processes can
load, ends a script at its start whenever the world has another size, as after an interruption. The
error is the same at each start. So the second such start in a row, at a size that never trained
while another one did, is a refusal: the job keeps to the size that trained last. It does so once;
from then on every failure counts, so a script that fails at that size, too, still uses up its
restarts.
"""

import re
from dataclasses import replace

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import MOST_TRIED_SIZES
from spotrun.policies.policy import Policy
from spotrun.state.actions import Announce
from spotrun.state.conditions import state, unsay
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.failures import NO_SIZES, Restarts, TriedSizes
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import has_stepped_in, training, world_members, world_number

_COMPARED_CHARACTERS = 200
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")  # addresses, ports, ranks, sizes
_SAYS_NOTHING = re.compile(
    r"(rank # (ended with exit code #|was killed by [\w#]+( \(.*\))?)"
    r"|exit code #|a training process failed)?"
    r"([:;] (its log says why|it printed nothing))?"
)
"""An end without a word of the script's own: it is the same whatever the cause."""


def note_size(view: View, status: JobState) -> JobState:
    """Remember the size at which a plain script trains; forget a refusal that holds no more."""
    known = status.restarts.sizes
    found = known if known.template == view.job.template else NO_SIZES
    if found.held is not None and view.job.held_size is None:
        found = without_suspicion(replace(found, held=None))
    if _trains_plainly(view, status):
        found = after_steps(found, len(training(status)), view.job.template)
    return status if found == known else _remember(status, found)


def after_steps(known: TriedSizes, size: int, template: str) -> TriedSizes:
    """Return what is known of a script's sizes once it trains at one: its last start was well."""
    others = tuple(one for one in known.trained if one != size)
    trained = (*others, size)[-MOST_TRIED_SIZES:]
    return without_suspicion(replace(known, trained=trained, template=template))


def after_failed_start(known: TriedSizes, size: int, message: str) -> TriedSizes:
    """Return what is known of a script's sizes once a start at one has failed.

    Size 0 is no start: no world stood. Words that fit any cause are not recognised again.
    """
    if known.held is not None or not size:
        return known
    error = _compared(message)
    if not known.trained or size in known.trained or _SAYS_NOTHING.fullmatch(error):
        return without_suspicion(known)
    if (known.suspect, known.error) == (size, error):
        return replace(known, held=known.trained[-1])
    return replace(known, suspect=size, error=error)


def without_suspicion(known: TriedSizes) -> TriedSizes:
    """Return what is known without the failed start at a size, unless that is refused for good."""
    return known if known.held is not None else replace(known, suspect=None, error=None)


def is_refusal(before: TriedSizes, after: TriedSizes) -> bool:
    """Whether it was found just now that the script refuses a size."""
    return before.held is None and after.held is not None


def is_on_probation(known: TriedSizes) -> bool:
    """Whether the next start tells if the script refuses this size: one more than the limit."""
    return known.suspect is not None and known.held is None


def why_held(restarts: Restarts) -> str:
    """Say what was refused, and what to write."""
    known = restarts.sizes
    is_last = restarts.last_reason == Reason.SIZE_REFUSED
    said = restarts.last_message if is_last else known.error
    size = known.held
    return (
        f"the script fails to start with {known.suspect} workers, twice in the same words, and "
        f"trained with {size}: the job waits for {size}, and counts no failure. Write "
        f"workers.min = workers.max = {size}, or in workers.sizes the numbers that it takes; an "
        f"argument for the number of nodes can be $GROUP_WORLD_SIZE. It said: {said}"
    )[:MAX_MESSAGE_CHARS]


def say_size(view: View, status: JobState) -> JobState:
    """State that the script refuses a size, for as long as the job keeps to another."""
    kind = ConditionType.SIZE_ACCEPTED
    if status.restarts.sizes.held is None or status.phase in FINISHED:
        return unsay(status, kind)
    why = why_held(status.restarts)
    return state(view, status, kind, Reason.SIZE_REFUSED, why, holds=False)


def size_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Tell once that the job keeps to a size."""
    if not is_refusal(view.job.status.restarts.sizes, status.restarts.sizes):
        return ()
    return (Announce(Reason.SIZE_REFUSED, why_held(status.restarts), is_warning=True),)


def _trains_plainly(view: View, status: JobState) -> bool:
    """Whether a world of the present template trains through a script without `Run`."""
    present = world_number(status)
    members = world_members(view, status)
    if not all(view.is_current(one) for one in members):
        return False
    return any(_is_plain(one) and has_stepped_in(one, present) for one in members)


def _is_plain(worker: Worker) -> bool:
    report = worker.agent.report if worker.agent is not None else None
    return report is not None and report.saves_on_order is False and not report.in_process


def _compared(message: str) -> str:
    return _VARYING.sub("#", message)[:_COMPARED_CHARACTERS]


def _remember(status: JobState, sizes: TriedSizes) -> JobState:
    return replace(status, restarts=replace(status.restarts, sizes=sizes))


FIXED_SIZE = Policy(say_size, announce=size_news)
