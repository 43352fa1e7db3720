"""The entry point of `torchrun --rdzv-backend=spotrun`: a rendezvous that is told by the operator.

Every process that imports torchrun's rendezvous loads this file, and in the middle of that import:
so it imports nothing but what it needs to be there.
"""

from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousHandlerCreator,
    RendezvousParameters,
)


def get_handler() -> RendezvousHandlerCreator:
    """What torchrun asks for: a function that makes the handler."""
    return _make


def _make(parameters: RendezvousParameters) -> RendezvousHandler:
    from spotrun_trainer.agent.rendezvous_handler import make_handler  # noqa: PLC0415 - see above

    return make_handler(parameters)
