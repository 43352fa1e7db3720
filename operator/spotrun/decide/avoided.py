"""Nodes that new workers keep away from: who was lost, blamed or given notice there.

Kubernetes calls a node that died ready for another 40 s, and no dialect of notices but a taint
keeps new pods away. What a pod keeps away from is fixed when it is made; so one that then finds no
node is taken back once it may go where it was not to go.
"""

from collections.abc import Iterable

from spotrun.api.names import Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.api.values import Serials
from spotrun.decide.actions import Withdraw
from spotrun.decide.failures import nodes_to_avoid
from spotrun.decide.placement.supply import patience_seconds, waits_seconds
from spotrun.decide.serials import numbers
from spotrun.decide.snapshot import PodPhase, Worker
from spotrun.decide.view import View

_MOST_AVOIDED = 64
"""An affinity that names hundreds of nodes would be a burden to the scheduler."""
_ALIVE_SECONDS = 0.5
"""Who is asked for a sign of life, and lives, gives it within milliseconds."""
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def note_lost(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Remember who was given up but may still run, until it is settled.

    Once the others train without it nobody misses it any more, so nothing else would tell.
    """
    known, settled = numbers(status.lost), numbers(status.settled)
    given_up = {
        serial
        for serial, fate in view.ends.items()
        if fate.cause is Reason.NODE_LOST and not fate.is_final
    }
    lost = {n for n in known | given_up if n in view.by_serial and n not in settled}
    if lost == known:
        return status
    return status.model_copy(update={"lost": Serials.of(tuple(sorted(lost))) if lost else None})


def avoided(view: View, status: TrainingJobStatus) -> tuple[str, ...]:
    """The host names of the nodes on which no worker is to be made now."""
    dead, leaving = _dead(view, status), _leaving(view)
    nodes = dict.fromkeys((*sorted(dead), *sorted(leaving)))
    return tuple(dict.fromkeys((*nodes_to_avoid(status), *tuple(nodes)[:_MOST_AVOIDED])))


def kept_away_in_vain(view: View, status: TrainingJobStatus) -> tuple[Withdraw, ...]:
    """Take back the workers that find no node, and would no longer keep away from all of theirs."""
    waiting = [w for w in view.staying if w.node is None and w.pod.unschedulable and w.pod.avoids]
    if not waiting:
        return ()
    still = set(avoided(view, status))
    why = "it found no other node, and those that it kept away from may be used again"
    return tuple(
        Withdraw(w.serial, w.pod.uid, w.pod.version, Reason.BETTER_POOL, why)
        for w in waiting
        if not still.issuperset(w.pod.avoids)
        and waits_seconds(view, w) >= patience_seconds(view, w)
    )


def _dead(view: View, status: TrainingJobStatus) -> set[str]:
    """Where a worker was lost, and nothing has been heard since: neither its end nor another's."""
    lost = (view.by_serial[n] for n in numbers(status.lost) if n in view.by_serial)
    dead = set(_hosts(w for w in lost if w.pod.end is None and w.pod.phase not in _ENDED))
    return dead.difference(_hosts(filter(_gives_signs_of_life, view.alive))) if dead else dead


def _leaving(view: View) -> set[str]:
    return set(_hosts(w for w in view.alive if w.node is not None and w.node.leaves_at is not None))


def _hosts(workers: Iterable[Worker]) -> Iterable[str]:
    nodes = (worker.node for worker in workers)
    return (node.hostname or node.name for node in nodes if node is not None and not node.gone)


def _gives_signs_of_life(worker: Worker) -> bool:
    return worker.agent is not None and worker.agent.heard_seconds <= _ALIVE_SECONDS
