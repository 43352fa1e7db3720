"""The training of bench/recovery_torchft.py: the usual model, in the manner of torchft.

A process is a replica group of its own. `PureDistributedDataParallel` and not the wrapper of
torch's DDP: that one asserts in a survivor when its peer is killed (torchft 0.2.0).
"""

import argparse
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torchft
from torch.utils.data import DataLoader
from torchft.ddp import PureDistributedDataParallel

from bench.recovery_training import (
    LEARNING_RATE,
    LOADERS,
    MICROBATCH,
    MICROBATCHES,
    Files,
    model,
    trace,
)
from devcluster.argument_types import how_many

REPLICAS = 2
PEER_TIMEOUT = timedelta(seconds=5)
"""The time-out of torchft's own examples; its default of a minute would be the whole result."""


def train(folder: Path, layers: int, replica: int) -> None:
    torch.manual_seed(1)
    net = model(layers)
    plain = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=0.9)

    def state_dict() -> dict[str, Any]:
        return {"net": net.state_dict(), "optimizer": plain.state_dict()}

    def load_state_dict(state: dict[str, Any]) -> None:
        net.load_state_dict(state["net"])
        plain.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=PEER_TIMEOUT),
        min_replica_size=1,
        state_dict=state_dict,
        load_state_dict=load_state_dict,
        replica_id=f"bench_{replica}",
    )
    wrapped = PureDistributedDataParallel(manager, net)
    optimizer = torchft.Optimizer(manager, plain)
    samples = Files(folder / "samples")
    sampler = torchft.DistributedSampler(
        samples, replica_rank=replica, num_replica_groups=REPLICAS, group_rank=0, num_replicas=1
    )
    batches = DataLoader(
        samples,
        batch_size=MICROBATCH * MICROBATCHES // REPLICAS,
        sampler=sampler,
        num_workers=LOADERS,
    )
    for x in batches:
        before = manager.current_step()
        optimizer.zero_grad()
        wrapped(x).square().mean().backward()
        optimizer.step()
        if manager.current_step() > before:  # only then was it agreed on
            rank, size = manager.participating_rank(), manager.num_participants()
            trace(folder, before, replica if rank is None else rank, size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=how_many, required=True)
    parser.add_argument("--replica", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.folder, arguments.layers, arguments.replica)
