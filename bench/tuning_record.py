"""Learning curves of real trainings, recorded for `bench/tuning_curves.py`.

Each curve is of a small transformer that learns to write Python from the source of the standard
library, with different values: the loss on held-out text after every tenth step, and the CPU time
of a step. A process trains with one thread, so that CPU time depends little on other processes.

Run as `.venv/bin/python -m bench.tuning_record [--curves 81] [--jobs 2] [--to FILE]`; with two
cores it takes about 15 minutes. An existing file is replaced only when all curves are complete.
"""

import argparse
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from bench.tuning_curves import EVERY, RECORDED, STEPS
from devcluster.argument_types import how_many
from spotrun.search import Int, LogUniform, Parameter, Space, Uniform
from spotrun.search.draws import draw

SPACE = Space(
    (
        Parameter("lr", LogUniform(1e-4, 1e-1)),
        Parameter("layers", Int(1, 4)),
        Parameter("width", Int(16, 96, 16)),
        Parameter("dropout", Uniform(0.0, 0.4)),
        Parameter("decay", LogUniform(1e-4, 1.0)),
    )
)
_CONTEXT, _BATCH, _HEADS, _HELD_OUT = 32, 32, 4, 128


def train(number: int) -> dict[str, Any]:
    """Train with the values of this number; returns the curve in the form of the file."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    values = SPACE.at(partial(draw, 0, number))
    text = b"".join(
        path.read_bytes() for path in sorted(Path(argparse.__file__).parent.glob("*.py"))
    )
    windows = torch.frombuffer(bytearray(text), dtype=torch.uint8).unfold(0, _CONTEXT + 1, _CONTEXT)
    windows = windows[torch.randperm(len(windows))].long()
    held_out, windows = windows[:_HELD_OUT], windows[_HELD_OUT:]
    model = _model(int(values["layers"]), int(values["width"]), float(values["dropout"]))
    opt = torch.optim.AdamW(
        model.parameters(), lr=float(values["lr"]), weight_decay=float(values["decay"])
    )
    mask = nn.Transformer.generate_square_subsequent_mask(_CONTEXT)

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        embed, layers, head = model
        found = head(layers(embed(batch[:, :-1]), mask, is_causal=True))
        return nn.functional.cross_entropy(found.flatten(0, 1), batch[:, 1:].flatten())

    losses: list[float | None] = []
    seconds = []
    for step in range(1, STEPS + 1):
        began = time.thread_time()
        opt.zero_grad()
        batch = windows[(step * _BATCH) % (len(windows) - _BATCH) :][:_BATCH]
        loss_of(batch).backward()  # type: ignore[no-untyped-call]
        opt.step()
        seconds.append(time.thread_time() - began)
        if step % EVERY == 0:
            model.eval()
            with torch.no_grad():
                loss = float(loss_of(held_out))
            model.train()
            losses.append(round(loss, 5) if math.isfinite(loss) else None)
    shown = {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in values.items()
    }
    return {"values": shown, "step_seconds": round(median(seconds), 5), "losses": losses}


def _model(layers: int, width: int, dropout: float) -> nn.ModuleList:
    layer = nn.TransformerEncoderLayer(
        width, _HEADS, 4 * width, dropout, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return nn.ModuleList([nn.Embedding(256, width), encoder, nn.Linear(width, 256)])


def main() -> None:
    """Record curves, and write them to the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--curves", type=how_many, default=81)
    parser.add_argument("--jobs", type=how_many, default=2)
    parser.add_argument("--to", type=Path, default=RECORDED)
    options = parser.parse_args()
    found = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for curve in pool.map(train, range(options.curves)):
            found.append(curve)
            print(f"{len(found)} of {options.curves}", file=sys.stderr, flush=True)
    options.to.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")


if __name__ == "__main__":
    main()
