"""A small classifier learns in a loop with accelerate; it fetches nothing.

Alone: `python accelerate_loop.py --steps 20`; on spot nodes that come and go:
`kubectl apply -f examples/accelerate-loop.yaml`.
"""

import argparse
import os

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import cross_entropy

from spotrun_trainer.integrations.accelerate import Checkpoints, SpotrunTracker


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    # Without GPUs, each process would train alone if accelerate were not told.
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), log_with=SpotrunTracker())
    accelerator.init_trackers("classifier")
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    model, opt = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    folder = os.environ.get("SPOTRUN_CHECKPOINT", "out")
    checkpoints = Checkpoints(accelerator, folder, total_steps=steps, every_steps=200)
    for step in range(checkpoints.restore(), steps):
        # The samples of a step and a rank are known from their numbers: none comes twice.
        number = step * accelerator.num_processes + accelerator.process_index
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(number))
        x = x.to(accelerator.device)
        loss = cross_entropy(model(x), (x.sum(dim=1) > 0).long())
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
        if step % 5 == 0:
            accelerator.log({"loss": loss.item()}, step=step)
        checkpoints.step_done(step + 1)
    accelerator.end_training()


if __name__ == "__main__":
    main()
