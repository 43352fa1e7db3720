"""The elastic dimension: a process group of our own, made for one world and dropped with it.

torch's default group is not touched: it belongs to the user, and lives as long as the process. A
process that is alone uses nothing of torch.distributed.
"""

import atexit
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.data.order.sharding import NOBODY, Share
from spotrun_trainer.elastic import background_call
from spotrun_trainer.elastic.backends import gloo, nccl, p2p_stream
from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import (
    POLL_SECONDS,
    Done,
    Pending,
    Work,
    first_line,
    free_ended,
    is_of_a_connection,
    keep_alive,
)
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.store_rendezvous import Backend, meet
from spotrun_trainer.parallel.degrees import Parallel
from spotrun_trainer.parallel.giving_up import GivingUp
from spotrun_trainer.process.device import name_of_gpu, with_index

ARRIVAL_SECONDS = 600.0  # as long as torchrun's own join_timeout
_END_SECONDS = 0.1  # a cut collective ends within a millisecond, or with its time-out
_open = weakref.WeakSet["Group"]()
_WHOLE = Parallel()


class Group:
    """The processes of one world; with a single process every operation returns at once.

    Where several processes hold one copy of the model together, `replica` is the group of these,
    and `peers` is the group with the same part of each copy. Else all are peers.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        backend: Any = None,  # noqa: ANN401 - torch's, untyped
        *,
        is_nccl: bool = False,
        connections: Connections | None = None,
        peers: "Group | None" = None,
        replica: "Group | None" = None,
        parallel: Parallel | None = None,
        axes: "Mapping[tuple[int, ...], Group]" = MappingProxyType({}),
    ) -> None:
        self.rank = rank
        self.size = size
        self.idle: AbstractSet[int] = NOBODY  # ranks that compute nothing in the present step
        self.dealt: Sequence[int] = ()  # microbatches of the present step by rank; empty: evenly
        self.is_nccl = is_nccl
        self.replica = replica
        self.lost: PeerLostError | None = None  # noticed where it could not be raised
        self.giving_up: GivingUp | None = None  # of a copy whose microbatches may not fit
        self._peers = peers
        self._parallel = parallel if replica is not None else None
        self.axes = axes  # of a copy: groups of some of its processes, by their numbers in it
        self._backend = backend
        self._connections = connections or Connections()
        self._begun: list[Any] = []  # works, of which some may not have ended
        self._ending: nccl.Ending | None = None  # of a world that broke over NCCL
        if backend is not None:
            _open.add(self)

    @classmethod
    def form(
        cls,
        rank_info: RankInfo,
        *,
        device: torch.device,
        timeout_seconds: float = ARRIVAL_SECONDS,
        look: Callable[[], None] = lambda: None,
        connections: Connections | None = None,
    ) -> "Group":
        """Meet the other processes of the world; `look` is called while waiting, and may raise."""
        connections = connections or Connections()
        if rank_info.size == 1:
            return cls(connections=connections)
        assert rank_info.store is not None, "more than one process"
        connections.begin()
        try:
            store, carried_by = meet(rank_info, timeout_seconds, look, name_of_gpu(device))
            connections.met(rank_info.store[1])
            is_nccl = carried_by is Backend.NCCL
            # A peer that dies during this delays the others for five time-outs of gloo, cut or not,
            # and with NCCL for ever.
            gpu = with_index(device) if is_nccl else None
            return background_call.call(
                lambda: _connect(store, rank_info, connections, gpu), connections.check
            )
        except RuntimeError as error:  # its store or a peer went away in between
            raise PeerLostError(f"world {rank_info.world_number}: {first_line(error)}") from error
        finally:
            # Also if it failed: sockets opened later belong to another world.
            connections.complete(_num_connections(rank_info))

    @property
    def peers(self) -> "Group":
        """The processes that hold the same part of the model."""
        return self._peers or self  # not stored in itself: only the garbage collector would free it

    @property
    def number(self) -> int:
        """The number of this process in its copy of the model."""
        return 0 if self.replica is None else self.replica.rank

    @property
    def plan(self) -> Parallel:
        """The work of each process of a copy; all the work, where the script divides the model."""
        return self._parallel or _WHOLE

    @property
    def is_divided_by_script(self) -> bool:
        """Whether the script divides the model among processes that compute the same samples."""
        return self.replica is not None and self._parallel is None

    @property
    def share(self) -> Share:
        """The place of this process among those that microbatches are dealt to."""
        peers, part = self.peers, self.plan.part_of(self.number)
        return Share(peers.size, peers.rank, peers.idle, self.plan.shard, part, peers.dealt)

    @property
    def counts(self) -> bool:
        """Whether this process's part of a sum counts.

        Of processes that compute the same it is that of the first. Of a
        pipeline's stages it is that of the last, which alone has the loss.
        """
        return self.is_divided_by_script or self.plan.has_loss(self.number)

    def along(self, dimension: str) -> "Group":
        """Return the processes that differ from this one in one dimension of a copy's mesh."""
        ranks = tuple(self.plan.axis(dimension, self.number))
        if self.replica is None or len(ranks) == 1:
            return Group()
        return self.replica.axes.get(ranks, self.replica)

    def sum_of_stage(self, tensor: Tensor) -> None:
        """Sum over the processes that compute the same layers for other samples, in place."""
        self.along("shard").all_reduce(tensor).wait()
        self.peers.all_reduce(tensor).wait()

    def check(self) -> None:
        """Raise PeerLostError if the world is known to be broken."""
        self._connections.check()
        if self.replica is not None and self.replica.lost is not None:
            raise self.replica.lost

    def begin(self, collective: Callable[[Any], Any], tensor: Tensor) -> Pending:
        """Begin a collective of torch's own on the backend."""
        assert self._backend is not None, "a single process has no backend"
        return self._begin(lambda: collective(self._backend), tensor)

    def begin_message(self, message: Callable[[Any], Any], tensor: Tensor) -> Pending:
        """Begin a message of torch's own on the backend, to or from one process."""
        if self.is_nccl:
            return self.begin(message, tensor)
        return self._begin(lambda: p2p_stream.message(message(self._backend)))

    def all_reduce(self, tensor: Tensor) -> Pending:
        """Begin to sum a tensor over all processes, in place."""
        if self.size == 1:
            return Done()
        return self._begin(lambda: self._backend.allreduce([tensor]), tensor)

    def broadcast(self, tensor: Tensor, source: int) -> Pending:
        """Begin to copy one process's tensor to all, in place."""
        if self.size == 1:
            return Done()
        options = distributed.BroadcastOptions()
        options.rootRank = source
        return self._begin(lambda: self._backend.broadcast([tensor], options), tensor)

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return all processes' tensors, in rank order along a new first dimension."""
        gathered = tensor.new_empty((self.size, *tensor.shape))
        if self.size == 1:
            return gathered.copy_(tensor.unsqueeze(0))
        parts = list(gathered.unbind(0))
        self._begin(lambda: self._backend.allgather([parts], [tensor]), tensor).wait()
        return gathered

    def all_to_all(
        self, output: Tensor, given: Tensor, output_sizes: list[int], given_sizes: list[int]
    ) -> Pending:
        """Begin to send each process its piece of `given`; pieces arrive in rank order."""
        if self.size == 1:
            output.copy_(given)
            return Done()
        return self._begin(
            lambda: self._backend.alltoall_base(output, given, output_sizes, given_sizes), given
        )

    def send(
        self, tensors: Iterable[Tensor], rank: int, *, most: timedelta | None = None
    ) -> Pending:
        """Begin to send tensors, one after the other, to one process, which receives them.

        Each may take at most this long. They run beside collectives, but not on NCCL, where two
        communicators can block each other.
        """
        return self._stream(lambda tensor: self._backend.send([tensor], rank, 0), tensors, most)

    def receive(
        self, tensors: Iterable[Tensor], rank: int, *, most: timedelta | None = None
    ) -> Pending:
        """Begin to receive tensors from one process; each may take at most this long."""
        return self._stream(lambda tensor: self._backend.recv([tensor], rank, 0), tensors, most)

    def text_from(self, source: int, text: str, *, device: torch.device) -> str:
        """Return one process's text to all."""
        content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=device)
        length = torch.tensor([len(content)], device=device)
        self.broadcast(length, source).wait()
        self.prove(device)
        message = content if self.rank == source else content.new_empty(int(length.item()))
        if len(message):
            self.broadcast(message, source).wait()
            self.prove(device)
        return bytes(message.tolist()).decode()

    def total(self, tensor: Tensor) -> list[Any]:
        """Sum a few numbers over all processes, and return them to the host, which acts on them."""
        self.all_reduce(tensor).wait()
        self.prove(tensor.device)
        return list(tensor.tolist())

    def prove(self, device: torch.device) -> None:
        """Raise PeerLostError unless all collectives of this world before this one were whole.

        A broken communicator of NCCL ends its kernels early, also without an error, and stays
        broken. So whoever lacks a part of an earlier collective adds nothing to this sum.
        """
        if self.is_nccl:
            ones = torch.ones(1, dtype=torch.float64, device=device)
            self.all_reduce(ones).wait()
            self.check_all(ones)

    def check_all(self, ones: Tensor) -> None:
        """Raise PeerLostError unless a sum of ones has that of each process."""
        if (there := ones.item()) != self.size:
            raise PeerLostError(f"only {there:g} of {self.size} processes took part in a sum")

    def cut(self) -> None:
        """End all waits in this world, here and then at the peers; no collective in it succeeds."""
        self._connections.cut()

    def begin_end(self, gpu: torch.device) -> None:
        """Begin to end all work of this broken world on a GPU."""
        self._ending = nccl.Ending(self._backend, gpu)

    def end(self, look: Callable[[], None]) -> None:
        """Close it once nothing of it runs any more; `look` is called meanwhile, and may raise."""
        assert self._ending is not None, "its end was begun"
        self._ending.wait(look)
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for part in (*self.axes.values(), self.replica, self._peers):
            if part is not None:
                part.close()
        free_ended()
        if not self._is_quiet():
            # Its kernels, and all later ones, would wait for ever.
            if self.is_nccl and self._ending is None:
                self._backend.abort()
            keep_alive(self._backend, self._begun)
        self._backend = None
        _open.discard(self)

    def _stream(
        self,
        begin: Callable[[Tensor], Any],
        tensors: Iterable[Tensor],
        most: timedelta | None = None,
    ) -> Pending:
        if not self.is_nccl:
            return self._begin(lambda: p2p_stream.stream(begin, tensors, most))
        for tensor in tensors:
            self._begin(partial(begin, tensor), tensor).wait()
        return Done()

    def _begin(self, collective: Callable[[], Any], tensor: Tensor | None = None) -> Pending:
        try:
            work = collective()
        except RuntimeError as error:
            if not is_of_a_connection(error):
                raise
            raise PeerLostError(f"a peer is gone: {first_line(error)}") from error
        is_on_gpu = self.is_nccl and tensor is not None
        begun = Work(work, self._connections, on_gpu_by=self._backend if is_on_gpu else None)
        self._begun = [one for one in self._begun if not one.is_completed()]
        self._begun.append(begun)
        return begun

    def _is_quiet(self) -> bool:
        """Whether no collective is in flight, not even one that is not waited for."""
        until = time.monotonic() + _END_SECONDS
        while not all(work.is_completed() for work in self._begun):
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True


def _connect(
    store: Store, rank_info: RankInfo, connections: Connections, gpu: torch.device | None
) -> Group:
    """Connect to the others, by NCCL if each has a GPU."""

    def group(name: str, rank: int, size: int, **parts: Any) -> Group:  # noqa: ANN401
        if size == 1 and not name.startswith("axis"):  # torch may ask for collectives of one
            return Group(connections=connections)
        own = PrefixStore(name, store)
        return Group(
            rank,
            size,
            gloo.make(own, rank, size) if gpu is None else nccl.make(own, rank, size, gpu),
            is_nccl=gpu is not None,
            connections=connections,
            parallel=rank_info.parallel,
            **parts,
        )

    if rank_info.shards == 1:
        return group("world", rank_info.rank, rank_info.size)
    peers = group(f"shard{rank_info.shard}", rank_info.replica, rank_info.replicas)
    axes = {
        tuple(ranks): group(
            f"axis{rank_info.replica}.{[*ranks]}", ranks.index(rank_info.shard), len(ranks)
        )
        for ranks in rank_info.axes
    }
    name = f"replica{rank_info.replica}"
    replica = group(name, rank_info.shard, rank_info.shards, axes=axes)
    return group("world", rank_info.rank, rank_info.size, peers=peers, replica=replica)


def _num_connections(rank_info: RankInfo) -> int:
    """Return the number of gloo's connections: each to each in every group of `_connect`."""
    in_parts = rank_info.replicas + rank_info.shards - 2 if rank_info.shards > 1 else 0
    return rank_info.size - 1 + in_parts + sum(len(one) - 1 for one in rank_info.axes)


@atexit.register
def _close_all() -> None:
    """Close all groups, because gloo would delay the process's end until its collectives end."""
    for group in list(_open):
        group.close()
