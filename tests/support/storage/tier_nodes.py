"""Nodes with local tiers: each has a folder, a process that serves it as an agent does, and parts.

The training processes are played by the test's own process, which holds one part for each node.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

import torch

from spotrun_trainer.checkpoint.format.reading.together import Together
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.newest import Found
from spotrun_trainer.checkpoint.tiers.server import Server
from spotrun_trainer.checkpoint.tiers.settings import Endpoint, Settings
from spotrun_trainer.checkpoint.tiers.tier import LocalTier, Vote
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.stub_group import in_threads, stub_groups
from tests.support.processes.trainer_world import SERVER

SECRET = "of this world"  # noqa: S105
PATIENCE_SECONDS = 60.0


class Node:
    """A node with one worker."""

    def __init__(self, root: Path, name: str, limit_bytes: int | None = None) -> None:
        folder = root / name
        folder.mkdir()
        settings = Settings(
            folder, "auto", limit_bytes, is_memory=True, endpoint=Endpoint(name, "")
        )
        answers, answer = SERVER.Pipe(duplex=False)
        self._agent = SERVER.Process(target=_serve, args=(settings, answer), daemon=True)
        self._agent.start()
        self.settings = replace(settings, endpoint=Endpoint(name, answers.recv()))

    def lose(self) -> None:
        """Lose the node: its agent is killed, and its memory is gone."""
        self._agent.kill()
        self._agent.join()
        shutil.rmtree(self.settings.folder, ignore_errors=True)


class World:
    """One process for each state, all of which are equal, and each saves a part of it.

    Nodes beyond these have no process that saves; they keep copies.
    """

    def __init__(
        self, nodes: Sequence[Node], states: Sequence[Tracked], number: int, *, shards: int = 1
    ) -> None:
        self.tiers = [
            LocalTier(
                node.settings, SaveSchedule("auto"), shard=rank % shards, shards=shards, stages=1
            )
            for rank, node in enumerate(nodes)
        ]
        self._states = states
        self.size = len(states)
        self.enter(number)

    def enter(self, number: int) -> None:
        """Let all processes meet, as at the begin of a world."""
        self.number = number
        said = [tier.introduce() for tier in self.tiers]
        for rank, tier in enumerate(self.tiers):
            tier.meet(said, rank, 1, secret=SECRET, attempt=f"world {number}")

    def begin(self, step: int, *, lost: int | None = None) -> str:
        """Begin to save a step, in all processes but one that is lost."""
        name = self.call(step, lost=lost)
        for tier in self.tiers:
            tier.before_change()
        return name

    def call(self, step: int, *, lost: int | None = None) -> str:
        """Do the same, and return before tensors may change."""
        name = f"step-{step}.g{self.number}"
        for rank, (tier, state) in enumerate(zip(self.tiers, self._states, strict=False)):
            flat, extra = state.flatten(), {"step": step}
            if rank != lost:
                tier.save(name, flat, rank=rank, size=self.size, extra=extra, parameters={})
        return name

    def vote(self, concluding: int | None = None) -> Vote:
        """Return the sum of all votes, and let all conclude from it, or so many of the first."""
        votes = [tier.vote(0, decides=False) for tier in self.tiers]
        total = Vote(*map(sum, zip(*votes, strict=True)))
        for tier in self.tiers[:concluding]:
            tier.conclude(total)
        return total

    def until_done(self) -> Vote:
        """Wait for the end of a save; returns the last votes."""
        until = time.monotonic() + PATIENCE_SECONDS
        while (total := self.vote()).busy:
            assert time.monotonic() < until, "lost patience"
            time.sleep(0.002)
        return total

    def find(self, durable: str = "") -> Found | None:
        """Return the newest step that all of them have."""
        held = [tier.held() for tier in self.tiers]
        found = [tier.find(held, durable) for tier in self.tiers]
        assert all(one == found[0] for one in found)
        return found[0]

    def load(self, found: Found) -> None:
        """Load it, in all processes."""
        for rank, (tier, state) in enumerate(zip(self.tiers, self._states, strict=False)):
            tier.load(found, state, rank=rank, size=self.size)

    def load_together(self, found: Found) -> None:
        """Load it, in all processes at once, each of which reads a share and sends it."""
        groups = stub_groups(self.size)

        def load(rank: int) -> None:
            readers = Together(groups[rank], torch.device("cpu"))
            state = self._states[rank]
            self.tiers[rank].load(found, state, rank=rank, size=self.size, readers=readers)

        in_threads(self.size, load)

    def close(self) -> None:
        """End the threads."""
        for tier in self.tiers:
            tier.close()


def _serve(settings: Settings, answer: Connection) -> None:
    answer.send(Server(Folder(settings), "127.0.0.1", lambda: (SECRET,)).address)
    Event().wait()
