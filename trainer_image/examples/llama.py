"""A small Llama writes Python; one copy of it is held by as many processes as asked for.

Alone: `python llama.py`; in two stages, layers divided by two, and all that is left by two:
`torchrun --nproc-per-node 8 llama.py --pipeline 2 --tensor 2 --shard 2`, or any of these; in 16
bits: `--precision bf16`.
"""

import argparse
from pathlib import Path

import torch
from tiny_lm import CONTEXT, load
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

from spotrun_trainer import Parallel, Run

WIDTH, HEAD, BLOCKS = 64, 16, 2
COLUMNS, ROWS = ColwiseParallel(), RowwiseParallel()
PLAN = {f"blocks.*.{name}": COLUMNS for name in ("q", "k", "v", "gate", "up")}
PLAN |= {"blocks.*.out": ROWS, "blocks.*.down": ROWS}
PLAN["head"] = ColwiseParallel(output_layouts=Replicate())


def rotated(x: Tensor) -> Tensor:  # by an angle that grows with the place
    place, pair = torch.arange(CONTEXT, device=x.device), torch.arange(HEAD // 2, device=x.device)
    angle = torch.outer(place, 1e4 ** (-2 * pair / HEAD))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # each process has some of the heads
        y = self.first(x)
        q, k, v = (
            each(y).unflatten(-1, (-1, HEAD)).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        y = scaled_dot_product_attention(rotated(q).to(v), rotated(k).to(v), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.norm = nn.Embedding(256, WIDTH), nn.RMSNorm(WIDTH)
        self.blocks = nn.ModuleDict({str(number): Block() for number in range(BLOCKS)})
        self.head = nn.Linear(WIDTH, 256, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.token(x.int()) if self.token else x
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.head else x

    def keep_stage(self, stage: int, stages: int) -> "Llama":  # whose layers keep their names
        for number in range(BLOCKS):
            if number * stages // BLOCKS != stage:
                del self.blocks[str(number)]
        if stage > 0:
            self.token = None
        if stage < stages - 1:
            self.norm = self.head = None
        return self


def summed(out: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(out.flatten(0, 1), y.long().flatten(), reduction="sum")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {"steps": 1000, "shard": 1, "tensor": 1, "pipeline": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=["bf16"])
    args = parser.parse_args()
    run = Run(seed=1, parallel=Parallel(args.shard, args.tensor, args.pipeline))
    stage, stages = run.mesh.get_local_rank("pp") if args.pipeline > 1 else 0, args.pipeline
    train = run.once(load, Path(argparse.__file__).parent)
    model = Llama().keep_stage(stage, stages)
    if args.tensor > 1:
        parallelize_module(model, run.mesh["tensor"], PLAN, src_data_rank=None)
    model = run.prepare(model, shard=True, precision=args.precision)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run.track(model=model, opt=opt)

    def schedule() -> Schedule1F1B:
        group = run.mesh.get_group("pp")
        own = PipelineStage(model, stage, stages, run.device, group=group)
        return Schedule1F1B(own, n_microbatches=2 * stages, loss_fn=summed, scale_grads=False)

    for step in run.steps(train, global_batch=64, microbatch=16, total=args.steps):
        with step:
            for x, y in step:
                if stages > 1:
                    step.pipeline(schedule, x, target=y, weight=y.numel())
                else:
                    step.backward(summed(model(x), y), weight=y.numel())
            step.update(opt, clip=1.0)
            run.log(loss=step.loss)


if __name__ == "__main__":
    main()
