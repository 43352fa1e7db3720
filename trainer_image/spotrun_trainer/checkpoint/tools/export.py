"""`spotrun export`: the model of a checkpoint as other programs read it."""

import re
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spotrun_trainer.checkpoint.foreign.chosen import Chosen, choose
from spotrun_trainer.checkpoint.foreign.output import made_whole
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.writing import hf, safetensors_files, torch_file
from spotrun_trainer.checkpoint.places import is_address
from spotrun_trainer.checkpoint.tools.found import find
from spotrun_trainer.process.commands.progress import Progress
from spotrun_trainer.process.commands.texts import size_text
from spotrun_trainer.state.tracked import some_of

_Write = Callable[[Path, Chosen, Callable[[int], object]], None]
_CARRY_OPTIMIZERS = {"torch", "dcp"}


@dataclass(frozen=True)
class _Form:
    """The form of an export: its name, and the function that writes it."""

    ending: str  # of the default output name
    write: _Write
    files: re.Pattern[str] | None = None  # the file names that identify a folder as this export


def run_export(chosen: Namespace) -> int:
    """Write the model of a checkpoint in another format."""
    if is_address(chosen.output or ""):
        raise ValueError(
            "exports are made on a disk: give --output a path, and then copy the export to the "
            "store"
        )
    form = _form(chosen)
    saved = Saved(*find(chosen.checkpoint))
    content = choose(
        saved, name=chosen.object, optimizer=chosen.with_optimizer, prefix=chosen.prefix
    )
    output = Path(chosen.output or f"{saved.name}{form.ending}")
    with made_whole(output, files=form.files, force=chosen.force, num_bytes=content.bytes) as made:
        if chosen.verify:
            with Progress(f"verifying {saved.name}", saved.bytes) as progress:
                saved.verify(progress.add)
        with Progress(f"writing {output}", content.bytes) as progress:
            form.write(made, content, progress.add)
    _note(chosen, content)
    print(f"wrote {len(content.tensors)} tensors ({size_text(content.bytes)}) to {output}")
    return 0


def _form(chosen: Namespace) -> _Form:
    kind = chosen.format
    if chosen.with_optimizer is not None and kind not in _CARRY_OPTIMIZERS:
        raise ValueError(f"{kind} cannot contain an optimizer: choose --format torch or dcp")
    if chosen.shard_size and kind not in {"safetensors", "hf"}:
        raise ValueError(f"--shard-size is for safetensors and hf, not for {kind}")
    if chosen.gather and kind == "dcp":
        raise ValueError("--gather makes one file, and dcp is a folder: leave it out")
    if chosen.config is not None and kind != "hf":
        raise ValueError(f"--config is for hf, not for {kind}")
    if kind == "hf":
        return _hf_form(chosen)
    if kind == "torch":
        return _Form(".pt", torch_file.write)
    if kind == "dcp":
        from spotrun_trainer.checkpoint.foreign.writing import dcp  # noqa: PLC0415 - takes long

        return _Form("-dcp", dcp.write, dcp.FILES)
    if chosen.shard_size:

        def write(folder: Path, content: Chosen, told: Callable[[int], object]) -> None:
            safetensors_files.write_folder(folder, content, chosen.shard_size, told)

        return _Form("-safetensors", write, safetensors_files.FILES)
    return _Form(".safetensors", safetensors_files.write_file)


def _hf_form(chosen: Namespace) -> _Form:
    size = None if chosen.gather else chosen.shard_size or hf.SHARD_BYTES
    config = None if chosen.config is None else Path(chosen.config)
    if config is not None:
        hf.beside_weights(config)  # reports what is wrong with it

    def write(folder: Path, content: Chosen, told: Callable[[int], object]) -> None:
        hf.write(folder, content, size, config, told)

    return _Form("-hf", write, safetensors_files.FILES)


def _note(chosen: Namespace, content: Chosen) -> None:
    """Tell what the export does not contain."""
    is_safetensors = chosen.format in {"safetensors", "hf"}
    if is_safetensors and content.others:
        _say(f"left out, because they are not tensors: {some_of(content.others)}")
    ties = safetensors_files.own_and_tied(content.tensors)[1]
    if is_safetensors and ties:
        _say(f"written once, under another name that shares their storage: {some_of([*ties])}")
    if chosen.format == "hf" and chosen.config is None:
        _say("from_pretrained needs a config.json beside it: use --config FOLDER to copy one")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
