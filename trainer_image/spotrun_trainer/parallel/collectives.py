"""The collectives that torch asks a process group for, each begun on a backend of torch's own.

A class that torch uses as a group inherits them, and its `_begin` determines on which backend they
run, and how their errors are handled. If one were missing, torch would look for its own backend in
the group, and find none.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch._C._distributed_c10d import AllreduceOptions


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> None:
        """Return once the host may use the result."""


class Collectives:
    """torch's collectives by torch's names, of which some have changed in 2.14."""

    def _begin(self, collective: Callable[[Any], Any], tensors: Sequence[Tensor]) -> Pending:
        """Begin a collective on the present backend; it has one tensor at least."""
        raise NotImplementedError

    def allreduce(self, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to sum, or to reduce as the options say."""
        return self._begin(lambda backend: backend.allreduce(tensors, _with_work(options)), tensors)

    def allreduce_coalesced(self, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin several of these."""
        single = AllreduceOptions()
        single.reduceOp = options.reduceOp
        return self._each(lambda one: self.allreduce([one], single), tensors)

    def broadcast(self, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to copy one process's tensors to all."""
        return self._begin(lambda backend: backend.broadcast(tensors, _with_work(options)), tensors)

    def reduce(self, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to sum, for one process."""
        return self._begin(lambda backend: backend.reduce(tensors, _with_work(options)), tensors)

    def gather(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to copy each process's tensor to one of them."""
        return self._begin(
            lambda backend: backend.gather(outputs, tensors, _with_work(options)), tensors
        )

    def scatter(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to send each process its own one of the tensors that one process has."""
        return self._begin(
            lambda backend: backend.scatter(outputs, tensors, _with_work(options)), outputs
        )

    def allgather(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to copy each process's tensors to all."""
        return self._begin(
            lambda backend: backend.allgather(outputs, tensors, _with_work(options)), tensors
        )

    def all_gather_single(self, output: Any, tensor: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to copy each process's tensor into one tensor of all."""
        return self._begin(
            lambda one: _all_gather(one)(output, tensor, _with_work(options)), [tensor]
        )

    def reduce_scatter(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to sum, and to send each process its own one of the sums."""
        return self._begin(
            lambda backend: backend.reduce_scatter(outputs, tensors, _with_work(options)), outputs
        )

    def reduce_scatter_single(self, output: Any, tensor: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to sum, and to give each process its part."""
        return self._begin(
            lambda one: _reduce_scatter(one)(output, tensor, _with_work(options)), [tensor]
        )

    def alltoall(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin to send each process its own tensor."""
        return self._begin(
            lambda backend: backend.alltoall(outputs, tensors, _with_work(options)), outputs
        )

    def all_to_all_single(
        self,
        output: Any,  # noqa: ANN401
        tensor: Any,  # noqa: ANN401
        output_sizes: Any,  # noqa: ANN401
        sizes: Any,  # noqa: ANN401
        options: Any,  # noqa: ANN401
    ) -> Pending:
        """Begin to send each process its part of a tensor."""
        return self._begin(
            lambda one: _all_to_all(one)(output, tensor, output_sizes, sizes, _with_work(options)),
            [tensor],
        )

    # Their names until torch 2.14.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single

    def allgather_into_tensor_coalesced(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin several of these; torch's own layers on parts of a tensor ask for one."""
        return self._each(
            lambda pair: self.all_gather_single(pair[0], pair[1], options),
            zip(outputs, tensors, strict=True),
        )

    def reduce_scatter_tensor_coalesced(self, outputs: Any, tensors: Any, options: Any) -> Pending:  # noqa: ANN401
        """Begin several of these."""
        return self._each(
            lambda pair: self.reduce_scatter_single(pair[0], pair[1], options),
            zip(outputs, tensors, strict=True),
        )

    def _each(self, begin: Callable[[Any], Pending], every: Any) -> Pending:  # noqa: ANN401
        works = [begin(one) for one in every]
        return works[-1]  # each has been waited for


def _all_gather(backend: Any) -> Any:  # noqa: ANN401 - torch's, untyped
    return getattr(backend, "all_gather_single", None) or backend._allgather_base  # noqa: SLF001


def _reduce_scatter(backend: Any) -> Any:  # noqa: ANN401 - torch's, untyped
    return getattr(backend, "reduce_scatter_single", None) or backend._reduce_scatter_base  # noqa: SLF001


def _all_to_all(backend: Any) -> Any:  # noqa: ANN401 - torch's, untyped
    return getattr(backend, "all_to_all_single", None) or backend.alltoall_base


def _with_work(options: Any) -> Any:  # noqa: ANN401 - torch's, untyped
    """Ask for a work to wait for; NCCL returns none otherwise."""
    if hasattr(options, "asyncOp"):
        options.asyncOp = True
    return options
