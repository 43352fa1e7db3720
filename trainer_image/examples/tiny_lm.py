"""A small transformer learns to write Python, from the source of the standard library.

Alone: `python tiny_lm.py --steps 200`; two of it: `torchrun --nproc-per-node 2 tiny_lm.py`; and on
spot nodes that come and go: `kubectl apply -f examples/tiny-lm.yaml`.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Subset, TensorDataset

from spotrun_trainer import Run

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class TinyLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, 256)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # the mean of all predictions' losses
        past_only = nn.Transformer.generate_square_subsequent_mask(CONTEXT, x.device)
        found = self.layers(self.token(x.int()) + self.place.weight, past_only, is_causal=True)
        return cross_entropy(self.head(found).flatten(0, 1), y.long().flatten())


def load(folder: Path) -> TensorDataset:
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    windows = torch.frombuffer(bytearray(text), dtype=torch.uint8).unfold(0, CONTEXT + 1, CONTEXT)
    return TensorDataset(windows[:, :-1], windows[:, 1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    run = Run(seed=1)
    data = run.once(load, Path(argparse.__file__).parent)
    val, train = Subset(data, range(256)), Subset(data, range(256, len(data)))
    model = run.prepare(TinyLM())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run.track(model=model, opt=opt)
    for step in run.steps(train, global_batch=64, microbatch=16, total=parser.parse_args().steps):
        with step:
            for x, y in step:
                step.backward(model(x, y), mean_of=y.numel())
            step.update(opt, clip=1.0)
            run.log(loss=step.loss)
        if run.every(100):
            run.log(val=run.evaluate(model, val, lambda lm, xy: lm(*xy)))


if __name__ == "__main__":
    main()
