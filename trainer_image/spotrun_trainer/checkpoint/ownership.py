"""The ownership of a place for checkpoints: two running trainings cannot share one.

Each would treat the other's checkpoints as its own, and delete them. So the first process of a
training writes a small file into the folder, and rewrites it every few seconds. A training that
finds another's file watches it. If the file changes, the other training runs, and this one refuses
the folder; if not, that training is over and this one takes the folder over, for example if the job
was created again. While processes wait for a world and there is no first process, they renew the
file instead. A training that ends normally removes its file. No clocks are compared, because those
of two machines may differ.

If nothing can be written, for example on a full disk, the old file stays in the folder that was
taken over: it has no effect as long as it does not change.
"""

import json
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from spotrun_trainer.checkpoint.format.storage import Note, Storage
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.storage_retries import patiently, reading
from spotrun_trainer.telemetry.console import say

OWNER = "OWNER"
WATCH_BEATS = 5
"""A training whose file did not change for this many beats has ended."""
_LOOK_SECONDS = 0.2
_JOIN_SECONDS = 5.0


class FolderInUseError(ValueError):
    """Another running training keeps its checkpoints in this folder."""


@dataclass(frozen=True)
class Claim:
    """The content of the file."""

    training: str  # equal for all processes of one training, and for no other
    what: str  # a description for people
    process: str = ""  # that writes it; "" if another process of the training may write it next
    beat: str = ""  # different each time

    @property
    def is_known_to_be_over(self) -> bool:
        """Whether a process of this machine wrote it that has ended."""
        machine, _, pid = self.process.rpartition("/")
        is_here = bool(pid) and machine == _machine()
        return is_here and self.process != process_named(pid.partition(".")[0])


class Ownership:
    """One training's claim to a folder, renewed by whichever of its processes is the first."""

    def __init__(
        self,
        place: Storage | Path,
        claim: Claim,
        *,
        beat_seconds: float | None = None,
        watch_seconds: float | None = None,
    ) -> None:
        storage = _storage(place)
        self._folder = storage.where()
        self._note = storage.note(OWNER)
        self._claim = claim
        self._beat_seconds = beat_seconds or self._note.beat_seconds
        if watch_seconds is None:
            watch_seconds = WATCH_BEATS * self._beat_seconds
        self._watch_seconds = watch_seconds
        self._lost: Claim | None = None
        self._taken_from: Claim | None = None  # of a training that is over; its file may remain
        self._stands_in = False  # for a first process that may have ended
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None  # None: another process renews it

    def take(self, *, patience_seconds: float = 0.0) -> None:
        """Take the folder; raises FolderInUseError if another training keeps it for that long."""
        until = time.monotonic() + patience_seconds
        is_taken, is_said = False, False
        while not is_taken:
            other = patiently(self._read)
            if other is None:
                is_taken = self._create()
            elif self._is_free(other):
                self._taken_from = other
                is_taken = self._write()
            elif time.monotonic() >= until:
                raise FolderInUseError(self._refusal(other))
            elif not is_said:
                say(f"waiting until {other.what} ends: its checkpoints are in {self._folder}")
                is_said = True
        self.keep()

    def keep(self) -> None:
        """Renew the claim from now on, as the first process of the training."""
        self._stands_in = False
        self._begin()

    def stand_in(self) -> None:
        """Renew the claim while no other process of this training does, until `keep` or `leave`."""
        if self._thread is None:
            self._stands_in = True
            self._begin()

    def _begin(self) -> None:
        if self._thread is None:
            self._closing.clear()
            self._thread = threading.Thread(target=self._run, name="owner", daemon=True)
            self._thread.start()

    def leave(self, *, is_over: bool) -> None:
        """Stop renewing the claim: another process does, or the training is over."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._closing.set()
        thread.join(_JOIN_SECONDS)  # an unreachable file server may delay it
        if is_over and self._lost is None and not thread.is_alive():
            with suppress(OSError):
                self._note.remove()

    def check(self) -> None:
        """Raise FolderInUseError if another training has taken over the folder meanwhile."""
        if self._lost is not None:
            raise FolderInUseError(self._refusal(self._lost))

    def _run(self) -> None:
        before: Claim | None = None
        while not self._closing.wait(self._beat_seconds):
            with suppress(OSError):
                claim = read_claim(self._note)
                is_left, before = is_abandoned(claim, before, self._claim), claim
                if self._stands_in and not is_left:
                    continue
                is_own = claim is None or claim.training == self._claim.training
                if not is_own and claim != self._taken_from:
                    self._lost = claim
                    return
            self._write()

    def _read(self) -> Claim | None:
        with reading(f"{self._folder}/{OWNER}"):
            return read_claim(self._note)

    def _is_free(self, found: Claim) -> bool:
        if found.training == self._claim.training or found.is_known_to_be_over:
            return True
        since = time.monotonic()
        while time.monotonic() - since < self._watch_seconds:
            time.sleep(min(_LOOK_SECONDS, self._watch_seconds / 10))
            claim, is_prompt = self._look()
            if claim not in (found, None):
                return False
            if not is_prompt:
                since = time.monotonic()
        say(f"{self._folder} is taken over: {found.what} has ended")
        return True

    def _look(self) -> tuple[Claim | None, bool]:
        """Return the claim, and whether the read was quick; if not, its writer may be slow too."""
        began = time.monotonic()
        try:
            claim = read_claim(self._note)
        except OSError:
            return patiently(self._read), False
        return claim, time.monotonic() - began < self._watch_seconds / 4

    def _create(self) -> bool:
        """Create the file; False: another training that began at the same time was first."""
        try:
            return self._note.create(self._written())
        except OSError:  # e.g. a full disk; no file of another training exists
            return True

    def _write(self) -> bool:
        with suppress(OSError):  # e.g. a full disk, or a file of another user
            self._note.replace(self._written())
        return True

    def _written(self) -> bytes:
        return json.dumps(asdict(replace(self._claim, beat=secrets.token_hex(8)))).encode()

    def _refusal(self, other: Claim) -> str:
        return (
            f"{other.what} keeps its checkpoints in {self._folder}, too, and runs: each training "
            "would delete what the other has saved. End that one first, and this one continues "
            "from its newest checkpoint; or choose another place (in a TrainingJob: give "
            "the job another name, or another volume)"
        )


def is_abandoned(found: Claim | None, before: Claim | None, own: Claim) -> bool:
    """Whether the claim of this training was not renewed since the last check."""
    return found is not None and found == before and found.training == own.training


def read_claim(place: Note | Path) -> Claim | None:
    """Return the claim to a place; None if there is none. Raises OSError if it cannot be read."""
    note = _storage(place).note(OWNER) if isinstance(place, Path) else place
    text = note.read()
    if text is None:
        return None
    try:
        content = json.loads(text)
        return Claim(*(str(content[name]) for name in ("training", "what", "process", "beat")))
    except (ValueError, KeyError, TypeError):  # of another user, or not a claim: it may change
        return Claim("", "another training", beat=text.hex())


def _storage(place: Storage | Path) -> Storage:
    return Place(place) if isinstance(place, Path) else place


def process_named(pid: int | str) -> str:
    """Return a unique name of a process of this machine; an empty text if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if stat[0] in "ZX" else f"{_machine()}/{pid}.{stat[19]}"


def _machine() -> str:
    """Return a name of this machine since its boot, and of this process namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
