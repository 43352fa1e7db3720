"""A small language model, planned in one process and trained in another."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import TensorDataset
from typing_extensions import override

from spotrun_trainer import Run

WIDTH, TOKENS, WORDS = 64, 32, 300


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.into = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.up = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    @override
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.into(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        grown: Tensor = self.down(torch.relu(self.up(x)))
        return x + grown


class LM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.register_buffer("scale", torch.ones(WIDTH))

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x) * self.scale
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(x)
        return found


def data() -> TensorDataset:
    text = torch.arange(40 * (TOKENS + 1)).reshape(40, -1) % WORDS
    return TensorDataset(text[:, :-1], text[:, 1:])


def main() -> None:
    run = Run(seed=1)
    model = run.prepare(LM())
    opt = torch.optim.AdamW(model.parameters())
    run.track(model=model, opt=opt)
    for step in run.steps(data(), global_batch=16, microbatch=8, total=2, sums=["seen"]):
        with step:
            for x, y in step:
                loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
                run.sum(seen=len(y))
                step.backward(loss, mean_of=y.numel())
            step.update(opt, clip=1.0)
            run.log(loss=step.loss)
        if run.every(1):
            run.log(val=run.evaluate(model, data(), lambda lm, xy: lm(xy[0]).mean()))


if __name__ == "__main__":
    main()
