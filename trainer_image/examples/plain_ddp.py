"""A loop around plain DDP whose state stays in memory: a lost node costs no step.

Two processes of it: `torchrun --standalone --nproc-per-node 2 plain_ddp.py --epochs 2`; and on spot
nodes that come and go: `kubectl apply -f examples/plain-ddp.yaml`.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import spotrun_trainer

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=50)
arguments = parser.parse_args()

dist.init_process_group()
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", dist.get_node_local_rank())
    torch.cuda.set_device(device)

torch.manual_seed(0)
x = torch.randn(4096, 16)
dataset = TensorDataset(x, x.square().sum(dim=1, keepdim=True))
sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=64, sampler=sampler)

model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = spotrun_trainer.keep(model=model, optimizer=optimizer, seed=0)  # goes on where it was
parallel = DistributedDataParallel(model)

for epoch in kept.epochs(arguments.epochs):
    sampler.set_epoch(epoch)
    for inputs, targets in kept.batches(loader):  # each batch is a step, kept when it is done
        loss = mse_loss(parallel(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        spotrun_trainer.progress(loss=loss)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}  step {kept.step}  loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
