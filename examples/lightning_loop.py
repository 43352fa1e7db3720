"""A small classifier learns by Lightning's Trainer; it fetches nothing.

Alone: `python lightning_loop.py --steps 20`; on spot nodes that come and go:
`kubectl apply -f examples/lightning-loop.yaml`.
"""

import argparse
import os

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from spotrun_trainer.integrations.lightning import (
    SpotrunCallback,
    newest_checkpoint,
    size_of_world,
)


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        loss = cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    seed_everything(1)
    x = torch.randn(65_536, 8)
    data = DataLoader(TensorDataset(x, (x.sum(dim=1) > 0).long()), batch_size=16, shuffle=True)
    folder = os.environ.get("SPOTRUN_CHECKPOINT", "out")
    trainer = Trainer(
        **size_of_world(),
        max_steps=steps,
        max_epochs=-1,
        callbacks=[SpotrunCallback(folder), ModelCheckpoint(folder, every_n_train_steps=200)],
        logger=False,
        enable_progress_bar=False,
        log_every_n_steps=5,
    )
    trainer.fit(Classifier(), data, ckpt_path=newest_checkpoint(folder))


if __name__ == "__main__":
    main()
