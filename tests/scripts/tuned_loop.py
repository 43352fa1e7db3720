"""A loop whose learning rate and width a search chooses; it tells its loss on held-out samples."""

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

from spotrun_trainer import Run, params


def samples(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(512, 1, generator=torch.Generator().manual_seed(seed)) * 6 - 3
    return x, torch.sin(2 * x)


def main() -> None:
    chosen = params(lr=0.01, width=16, steps=300)
    run = Run(seed=1, every="100 steps")
    data = run.once(lambda: TensorDataset(*samples(0)))
    width = chosen["width"]
    model = run.prepare(nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen["lr"])
    run.track(model=model, optimizer=optimizer)
    held_out_x, held_out_y = samples(1)
    for step in run.steps(data, global_batch=32, microbatch=32, total=chosen["steps"]):
        with step:
            for x, y in step:
                step.backward(mse_loss(model(x), y, reduction="sum"), weight=y.numel())
            step.update(optimizer)
        if step.number % 50 == 0:
            with torch.no_grad():
                run.log(val_loss=mse_loss(model(held_out_x), held_out_y).item())


if __name__ == "__main__":
    main()
