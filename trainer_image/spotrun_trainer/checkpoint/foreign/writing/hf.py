"""A folder that `from_pretrained` reads: the weights, and the other files of a base model."""

import shutil
from collections.abc import Callable
from pathlib import Path

from spotrun_trainer.checkpoint.foreign.chosen import Chosen
from spotrun_trainer.checkpoint.foreign.writing.safetensors_files import write_folder

SHARD_BYTES = 5 * 10**9
_WEIGHTS = {
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot"),
    *(".distcp", ".npz"),
}


def write(
    folder: Path,
    chosen: Chosen,
    shard_bytes: int | None,
    config: Path | None,
    told: Callable[[int], object],
) -> None:
    """Write the weights, and copy the files beside them."""
    for file in beside_weights(config) if config else []:
        shutil.copyfile(file, folder / file.name)  # the target of a cache's link, not the link
    write_folder(folder, chosen, shard_bytes, told)


def beside_weights(folder: Path) -> list[Path]:
    """Return the files of a model's folder that are not its weights: config, tokenizer, license.

    Raises ValueError if no config.json is among them.
    """
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} has no config.json: give --config a model's folder, as save_pretrained "
            "makes it"
        )
    return [one for one in sorted(folder.iterdir()) if one.is_file() and not _is_weight(one)]


def _is_weight(file: Path) -> bool:
    is_index = file.name.endswith(".index.json")
    return is_index or file.name.startswith(".") or file.suffix in _WEIGHTS
