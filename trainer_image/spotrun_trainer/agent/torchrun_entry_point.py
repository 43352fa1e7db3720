"""The entry point of `torchrun --rdzv-backend=spotrun`, a rendezvous that the operator controls.

Every process that imports torchrun's rendezvous loads this file, and in the middle of that import:
so it imports only what the entry point needs.
"""

from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousHandlerCreator,
    RendezvousParameters,
)


def get_handler() -> RendezvousHandlerCreator:
    """Return a function that makes the handler, as torchrun expects."""
    return _make


def _make(parameters: RendezvousParameters) -> RendezvousHandler:
    from spotrun_trainer.agent.processes.warm.collector import no_collections  # noqa: PLC0415

    with no_collections():
        from spotrun_trainer.agent.rendezvous_handler import make_handler  # noqa: PLC0415
    return make_handler(parameters)
