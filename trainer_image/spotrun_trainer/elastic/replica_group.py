"""torch's default group: the processes that hold one copy of the model together.

It lives as long as the process, and a model may keep a reference to it. Its collectives run on
another group in every world, so that a process continues with new mates after a loss.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed
from torch._C._distributed_c10d import AllreduceOptions, _create_work_from_future
from torch.distributed import HashStore  # type: ignore[attr-defined]  # not in its __all__
from typing_extensions import override

from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Done, Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.parallel.collectives import Collectives
from spotrun_trainer.parallel.giving_up import GivingUp
from spotrun_trainer.process.rng import key_of

_BACKEND = "spotrun"
_ProcessGroup: Any = distributed.ProcessGroup  # whose stubs have another form of each method


class ReplicaGroup(Collectives, _ProcessGroup):  # type: ignore[misc]
    """Collectives over one copy of the model, in whichever world there is.

    Where torch shards the model, its modules call collectives during forward and backward passes,
    and an error there would leave them in a state that they cannot leave. So collectives of a
    broken world then end at once, with useless results, and the error is raised after the
    microbatch (`Group.lost`), whose gradients are dropped.
    """

    def __init__(self, shard: int, shards: int, *, raises_later: bool = False) -> None:
        _ProcessGroup.__init__(self, shard, shards)
        self._group: Group | None = None
        self._raises_later = raises_later
        self._votes = False  # before each collective, whether all of the copy continue
        self._name = ""
        self._lost_in: Group | None = None  # where the loss of a peer is noted
        self._axes: dict[tuple[int, ...], ReplicaGroup] = {}

    @classmethod
    def make_default(cls, shard: int, shards: int, *, raises_later: bool = False) -> "ReplicaGroup":
        """Make one the default group of `torch.distributed`; no other process needs to be there."""
        if distributed.is_initialized():
            raise ValueError(
                "torch.distributed has a default group already: Run(shards=...) makes it the "
                "processes of one copy of the model, so remove the call of init_process_group"
            )
        group = cls(shard, shards, raises_later=raises_later)
        distributed.Backend.register_backend(
            _BACKEND, group._of, extended_api=True, devices=["cpu", "cuda"]
        )
        # A store of this process alone: the others are known when a world is entered.
        distributed.init_process_group(_BACKEND, store=HashStore(), rank=shard, world_size=shards)
        return group

    def enter(self, group: Group | None) -> None:
        """Use another world's group from now on; None: no group until there is another world."""
        if group is not None and self._votes:
            group.giving_up = _votes_of(group)
        self._enter(group, group)
        for ranks, axis in self._axes.items():
            axis._enter(group.axes[ranks] if group is not None else None, group)  # noqa: SLF001 - of its own class

    def vote(self) -> None:
        """Begin each collective with a vote from now on, by which all may drop a microbatch."""
        self._votes = True
        if self._group is not None:  # which they have met in before their first step
            self._group.giving_up = _votes_of(self._group)

    def _enter(self, group: Group | None, lost_in: Group | None) -> None:
        self._group, self._lost_in = group, lost_in

    def _of(self, options: Any, _more: Any) -> "ReplicaGroup":  # noqa: ANN401 - torch's
        """Return the group that torch makes: this one, or one for a dimension of its mesh."""
        ranks = tuple(options.global_ranks_in_group)
        if not ranks or len(ranks) == self.size():
            return self
        axis = ReplicaGroup(options.group_rank, options.group_size, raises_later=True)
        axis.name_as(options.group_id)
        self._axes[ranks] = axis
        return axis

    def barrier(self, opts: Any = None) -> Pending:  # noqa: ANN401
        """Return once all processes are there."""
        del opts  # such as which devices it has
        return self.allreduce([torch.zeros(1, device=self._device())], AllreduceOptions())

    def send(self, tensors: Any, rank: int, tag: int) -> Pending:  # noqa: ANN401
        """Begin to send a tensor to one process."""
        return self._exchange(lambda backend: backend.send(tensors, rank, tag), tensors)

    def recv(self, tensors: Any, rank: int, tag: int) -> Pending:  # noqa: ANN401
        """Begin to receive a tensor from one process."""
        return self._exchange(lambda backend: backend.recv(tensors, rank, tag), tensors)

    def _get_backend(self, _device: Any) -> "ReplicaGroup":  # noqa: ANN401
        """Return what torch asks whether several tensors can be sent at once, which is not so."""
        return self

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name for `torch.distributed.get_backend`."""
        return _BACKEND

    def getGroupName(self) -> str:  # noqa: N802 - torch's name
        """Return the name that torch knows the group by, for a DeviceMesh."""
        return self._name

    def getGroupDesc(self) -> str:  # noqa: N802 - torch's name
        """Return the name for it in torch's messages."""
        return "one copy of the model"

    def name_as(self, name: str) -> None:
        """Take the name under which torch has registered the group."""
        self._name = name

    @override
    def _begin(self, collective: Callable[[Any], Any], tensors: Sequence[Tensor]) -> Pending:
        group, lost_in = self._present()
        if not self._raises_later:
            return group.begin(collective, tensors[0])
        _RaisedLater(lambda: _voted(group, lost_in, collective, tensors[0]), lost_in).wait()
        return _ended(tensors[0])

    def _exchange(self, message: Callable[[Any], Any], tensors: Sequence[Tensor]) -> Pending:
        """Begin a message to or from one process, beside which others may have to begin."""
        group, lost_in = self._present()
        if not self._raises_later:
            return group.begin_message(message, tensors[0])
        return _RaisedLater(lambda: group.begin_message(message, tensors[0]), lost_in)

    def _device(self) -> torch.device:
        group, _ = self._present()
        return torch.device("cuda" if group.is_nccl else "cpu")

    def _present(self) -> tuple[Group, Group]:
        if self._group is None or self._lost_in is None:
            raise ValueError(
                "the processes that hold the model together meet when the first step begins: call "
                "code that needs all of them inside `with step:` or run.evaluate"
            )
        return self._group, self._lost_in


def _votes_of(copy: Group) -> GivingUp:
    every = [copy, *copy.axes.values()]
    device = torch.device("cuda", torch.cuda.current_device()) if copy.is_nccl else "cpu"
    return GivingUp([one for one in every if one.size > 1], device)


def _voted(group: Group, copy: Group, collective: Callable[[Any], Any], tensor: Tensor) -> Pending:
    """Begin a collective, if no process of the copy has dropped the microbatch."""
    votes = copy.giving_up
    if votes is None:
        return group.begin(collective, tensor)
    if group.size > 1 and not votes.goes_on(group):
        return Done()
    votes.is_amid_collective = True
    group.begin(collective, tensor).wait()
    votes.is_amid_collective = False
    return Done()


class _RaisedLater:
    """A collective or a message; the loss of a peer in it is noted, and raised later."""

    def __init__(self, begin: Callable[[], Pending], lost_in: Group) -> None:
        self._lost_in = lost_in
        self._pending: Pending | None = None
        if lost_in.lost is None:
            with self._noting():
                self._pending = begin()

    def wait(self) -> None:
        """Return once it has ended, or never will."""
        pending, self._pending = self._pending, None
        if pending is not None and self._lost_in.lost is None:
            with self._noting():
                pending.wait()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except PeerLostError as error:
            self._lost_in.lost = error


def _ended(tensor: Tensor) -> Pending:
    """Return a work of torch's own that has ended: its modules wait for no others."""
    ended = torch.futures.Future[list[Tensor]]()
    ended.set_result([tensor])
    work: Any = _create_work_from_future(ended)
    pending: Pending = work
    return pending


@contextmanager
def random_of_part() -> Iterator[None]:
    """Let torch draw other random numbers in each part of a model, as for dropout in a split layer.

    Elsewhere all parts draw the same, because tensors of which each part has a copy must stay
    equal. Draws in the block depend on seed, step, microbatch and part, not on the process.
    """
    is_split = distributed.is_initialized() and distributed.get_backend() == _BACKEND
    part = distributed.get_rank() if is_split else 0
    # All parts draw this alike: so each use differs, and activation checkpointing, which restores
    # the random state, gets the same again.
    key = key_of(int(torch.randint(2**62, ())), part)
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(key)
        if devices:
            torch.cuda.manual_seed(key)
        yield
