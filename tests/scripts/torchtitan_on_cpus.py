"""examples/torchtitan_train.py on CPUs: torchtitan's whole Trainer, but for what asks for a GPU.

The model, FSDP, activation checkpoints, optimizer, data loader, loop and checkpointer are
torchtitan's. Attention is torch's, for torchtitan's is compiled for GPUs; the memory of a GPU is
not measured, gradients are summed by gloo, and the time-outs of groups are left as they are.
"""

import argparse
import json
import os
import runpy
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["TORCH_COMPILE_DISABLE"] = "1"  # torch reads it when it is imported

import torch
import torch._utils
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.functional import scaled_dot_product_attention

EXAMPLE = Path(__file__).parents[2] / "examples" / "torchtitan_train.py"
OPTIONS = (
    "--module=llama3", "--config=llama3_debugmodel", "--training.local_batch_size=1",
    "--training.seq_len=64", "--training.disable_cuda_graphs", "--validator.no-enable",
    "--checkpoint.enable", "--checkpoint.interval=25",
)  # fmt: skip
WORDS = ("<s>", "</s>", "a", "b")
SPECIAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
TEXTS = 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--trace", type=Path, help="a folder for notes of steps")
    arguments = parser.parse_args()
    saved = Path(os.environ["SPOTRUN_CHECKPOINT"])
    assets = saved / f"assets-{os.environ['RANK']}"
    os.environ["HF_DATASETS_CACHE"] = str(assets / "cache")
    options = [f"--training.steps={arguments.steps}", f"--dump_folder={saved}"]
    sys.argv = [str(EXAMPLE), *OPTIONS, *options, *write_assets(assets)]
    use_cpus()
    if arguments.trace is not None:
        note_steps(arguments.trace)
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def use_cpus() -> None:
    """Put something for CPUs in the place of what asks for a GPU."""
    utils: Any = torch._utils
    utils._get_available_device_type = lambda: "cpu"
    utils._get_device_module = lambda _: torch.cpu

    from torchtitan.components import metrics  # noqa: PLC0415 - it looks for its device
    from torchtitan.distributed import fsdp  # noqa: PLC0415
    from torchtitan.distributed import utils as dist_utils  # noqa: PLC0415
    from torchtitan.models.common.attention import FlexAttention  # noqa: PLC0415

    none = metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)
    metrics.build_device_memory_monitor = lambda: SimpleNamespace(
        device_name="cpu", get_peak_stats=lambda: none, reset_peak_stats=lambda: None
    )
    dist_utils.set_pg_timeouts = lambda **_: None
    FlexAttention._compiled_flex_attn = attend
    fsdp.disable_fsdp_gradient_division = only_sum


def attend(q: Any, k: Any, v: Any, *, scale: Any, enable_gqa: Any, **_: Any) -> Any:
    out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa)
    return out, SimpleNamespace(lse=None)


def only_sum(model: nn.Module) -> None:
    """Divide no gradients, as torchtitan does, without the reduction that gloo lacks."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def write_assets(folder: Path) -> list[str]:
    """Write a tokenizer and texts, for this process alone; return the options that name them."""
    texts, tokenizer = folder / "texts", folder / "tokenizer"
    for made in (texts, tokenizer):
        made.mkdir(parents=True, exist_ok=True)
    (texts / "texts.jsonl").write_text((json.dumps({"text": "a b b a " * 100}) + "\n") * TEXTS)
    added = [{"id": n, "content": WORDS[n], "special": True, **SPECIAL} for n in (0, 1)]
    words = {"type": "WordLevel", "vocab": {w: n for n, w in enumerate(WORDS)}, "unk_token": "a"}
    whole = {"version": "1.0", "model": words, "added_tokens": added}
    parts = {"pre_tokenizer": {"type": "Whitespace"}}
    (tokenizer / "tokenizer.json").write_text(json.dumps({**whole, **parts}))
    (tokenizer / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    return [f"--dataloader.dataset_path={texts}", f"--hf_assets_path={tokenizer}"]


def note_steps(folder: Path) -> None:
    """Note each step of this process, for bench/scripts.py."""
    from torchtitan.trainer import Trainer  # noqa: PLC0415 - after what it is to find

    step = Trainer.train_step
    place = {"rank": int(os.environ["RANK"]), "size": int(os.environ["WORLD_SIZE"])}

    def noted(self: Any, *arguments: Any) -> None:
        step(self, *arguments)
        line = {"time": time.time(), "pid": os.getpid(), "step": self.step, **place}
        with (folder / "trace.jsonl").open("a") as lines:
            lines.write(json.dumps(line) + "\n")

    Trainer.train_step = noted


if __name__ == "__main__":
    main()
