"""The weights in a path: of Hugging Face, safetensors, torch, DCP, or a checkpoint of ours."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from spotrun_trainer.checkpoint.foreign.chosen import choose
from spotrun_trainer.checkpoint.foreign.reading import safetensors_files, torch_file
from spotrun_trainer.checkpoint.foreign.reading.file_ranges import InFiles
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.source import Source
from spotrun_trainer.checkpoint.format.completion import newest_complete
from spotrun_trainer.checkpoint.format.names import Name, names_among
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import Spec

_KINDS = (
    "a folder of Hugging Face with *.safetensors, one of torch.distributed.checkpoint (.metadata), "
    "a file of safetensors or torch.save, or a checkpoint of ours"
)


def open_source(path: Path) -> Source:
    """Open the weights in a path; raises ValueError if no known format is found."""
    if path.is_file():
        is_safetensors = path.suffix == ".safetensors"
        return safetensors_files.open_files(path) if is_safetensors else torch_file.open_file(path)
    if not path.is_dir():
        raise ValueError(f"{path} does not exist: give {_KINDS}")
    if (found := _ours(path)) is not None:
        return found
    if (path / ".metadata").is_file():
        from spotrun_trainer.checkpoint.foreign.reading import dcp  # noqa: PLC0415 - takes long

        return dcp.open_folder(path)
    return _of_hugging_face(path)


class _OurModel:
    """The only module of one of our checkpoints, by the names of its state_dict."""

    def __init__(self, saved: Saved) -> None:
        self._saved = saved
        self._paths = choose(saved).tensors

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The types and shapes of all tensors, in their order."""
        return {name: self._saved.specs[path] for name, path in self._paths.items()}

    def fill(self, name: str, box: Box, target: Tensor) -> None:
        """Read a part of a tensor."""
        self._saved.fill(self._paths[name], box, target)


def _ours(path: Path) -> Source | None:
    if names_among([path.name]):
        return _OurModel(Saved(Place(path.parent), Name.parse(path.name)))
    place = Place(path)
    if not place.names():
        return None
    if (name := newest_complete(place)) is None:
        raise ValueError(f"{path} contains no complete checkpoint")
    return _OurModel(Saved(place, name))


def _of_hugging_face(folder: Path) -> InFiles:
    indices = sorted(folder.glob(f"*{safetensors_files.INDEX_ENDING}"))
    if len(indices) == 1:
        return safetensors_files.open_index(indices[0])
    files = sorted(folder.glob("*.safetensors"))
    if len(files) == 1 and not indices:
        return safetensors_files.open_files(*files)
    if not files:
        raise ValueError(f"{folder} has no weights in a known format: give {_KINDS}")
    raise ValueError(
        f"{folder} has several files of weights: give the path of the index, or of one file"
    )
