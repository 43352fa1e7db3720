"""`verify`: every bit of a checkpoint is covered by a hash, and all hashes are compared."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.format.completion import is_complete
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.ranges import verify
from spotrun_trainer.checkpoint.format.storage import Storage


@dataclass(frozen=True)
class Verdict:
    """The result for one checkpoint."""

    name: Name
    is_complete: bool
    damages: tuple[str, ...] = ()  # each names its file
    files: int = 0

    def __str__(self) -> str:  # type: ignore[explicit-override]  # typing has it from 3.12 on
        if not self.is_complete:
            return f"{self.name}: incomplete, so no training starts from it"
        if self.damages:
            return "\n".join([f"{self.name}: damaged", *(f"  {one}" for one in self.damages)])
        return f"{self.name}: whole ({self.files} files)"


def verdict_on(place: Storage, name: Name, told: Callable[[int], object]) -> Verdict:
    """Compare the hashes of all files of a checkpoint; `told` gets the progress, in bytes."""
    if not is_complete(place, name):
        return Verdict(name, is_complete=False)
    try:
        saved = Saved(place, name)
    except DamagedCheckpointError as error:
        return Verdict(name, is_complete=True, damages=(str(error),))
    damages = tuple(_damages(saved, told))
    files = 1 + 2 * len(saved.manifests)
    return Verdict(name, is_complete=True, damages=damages, files=files)


def _damages(saved: Saved, told: Callable[[int], object]) -> Iterator[str]:
    for manifest in saved.manifests:
        try:
            verify(saved.place, saved.name, [manifest], told)
        except DamagedCheckpointError as error:
            yield str(error)
