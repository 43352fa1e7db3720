"""A small GPT-2 learns to write Python, by Hugging Face's Trainer; it fetches nothing.

Alone: `python hugging_face.py --steps 20`; on spot nodes that come and go:
`kubectl apply -f examples/hugging-face.yaml`.
"""

import argparse
import os
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from spotrun_trainer.integrations.transformers import SpotrunCallback, newest_checkpoint

CONTEXT = 64


def load(folder: Path) -> list[dict[str, torch.Tensor]]:
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("a*.py")))
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    return [{"input_ids": x, "labels": x} for x in tokens.unfold(0, CONTEXT, CONTEXT)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    data = load(Path(argparse.__file__).parent)
    arguments = TrainingArguments(
        output_dir=os.environ.get("SPOTRUN_CHECKPOINT", "out"),
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=200,
        save_steps=200,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
    )
    config = GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=2)
    trainer = Trainer(
        GPT2LMHeadModel(config),
        arguments,
        train_dataset=data[64:],
        eval_dataset=data[:64],
        callbacks=[SpotrunCallback()],
    )
    trainer.train(resume_from_checkpoint=newest_checkpoint(arguments.output_dir))


if __name__ == "__main__":
    main()
