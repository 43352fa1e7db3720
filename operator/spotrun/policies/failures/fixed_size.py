"""Scripts that work at one size only: if they refuse another size, this is no failure.

Some scripts have a configuration that fixes the number of nodes, or a checkpoint that only the same
number of processes can load. Such a script fails at its start whenever the world has another size,
for example after an interruption, each time with the same error. So if a script fails twice in a
row with the same error at a size that never trained, while another size did, this is a refusal: the
job keeps to the size that trained last. This happens once. From then on every failure counts, so a
script that fails at that size too still uses up its restarts.
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
"""A message without any text of the script itself: it is the same for every cause."""


def note_size(view: View, status: JobState) -> JobState:
    """Remember the size at which a plain script trains; forget a refusal that no longer applies."""
    known = status.restarts.sizes
    found = known if known.template == view.job.template else NO_SIZES
    if found.held is not None and view.job.held_size is None:
        found = without_suspicion(replace(found, held=None))
    if _trains_plainly(view, status):
        found = after_steps(found, len(training(status)), view.job.template)
    return status if found == known else _remember(status, found)


def after_steps(known: TriedSizes, size: int, template: str) -> TriedSizes:
    """Return the knowledge of a script's sizes once it trains at one: its last start succeeded."""
    others = tuple(one for one in known.trained if one != size)
    trained = (*others, size)[-MOST_TRIED_SIZES:]
    return without_suspicion(replace(known, trained=trained, template=template))


def after_failed_start(known: TriedSizes, size: int, message: str) -> TriedSizes:
    """Return the knowledge of a script's sizes once a start at one has failed.

    Size 0 is no start: there was no world. A message that fits any cause is never compared.
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
    """Return what is known without the failed start, unless its size is refused permanently."""
    return known if known.held is not None else replace(known, suspect=None, error=None)


def is_refusal(before: TriedSizes, after: TriedSizes) -> bool:
    """Whether this pass found out that the script refuses a size."""
    return before.held is None and after.held is not None


def is_on_probation(known: TriedSizes) -> bool:
    """Whether the next start, allowed beyond the limit, shows if the script refuses this size."""
    return known.suspect is not None and known.held is None


def why_held(restarts: Restarts) -> str:
    """Describe which size was refused, and what to set."""
    known = restarts.sizes
    is_last = restarts.last_reason == Reason.SIZE_REFUSED
    said = restarts.last_message if is_last else known.error
    size = known.held
    return (
        f"the script failed twice to start with {known.suspect} workers, with the same error, and "
        f"it trained with {size}: the job waits for {size}, and counts no failure. Set workers.min "
        f"= workers.max = {size}, or list in workers.sizes the numbers that the script accepts; an "
        f"argument for the number of nodes can be $GROUP_WORLD_SIZE. The error was: {said}"
    )[:MAX_MESSAGE_CHARS]


def say_size(view: View, status: JobState) -> JobState:
    """State that the script refuses a size, for as long as the job keeps to another."""
    kind = ConditionType.SIZE_ACCEPTED
    if status.restarts.sizes.held is None or status.phase in FINISHED:
        return unsay(status, kind)
    why = why_held(status.restarts)
    return state(view, status, kind, Reason.SIZE_REFUSED, why, holds=False)


def size_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Announce once that the job keeps to a size."""
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
