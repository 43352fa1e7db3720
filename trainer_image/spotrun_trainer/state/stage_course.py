"""The stage of a training in its checkpoints: where it began, and what it keeps of the last one."""

from collections.abc import Mapping
from typing import Any

from spotrun_trainer.process.stage import Stage
from spotrun_trainer.state.carry_over import Given, apply_changes, given_options


class StageCourse:
    """The stage that a process trains, from its first step on; without stages it does nothing."""

    def __init__(self, stage: Stage | None, things: Mapping[str, object]) -> None:
        """Note what the script has given to its optimizers, before a checkpoint is loaded."""
        self.index = stage.index if stage is not None else 0
        self.samples_before = 0  # of the stages before, which had other data
        self._stage = stage
        self._things = things
        self._began = 0
        self._given: Given = given_options(things) if stage is not None else {}

    def extra(self) -> dict[str, Any]:
        """Return its part of a checkpoint."""
        if self._stage is None:
            return {}
        return {
            "stage": {
                "name": self._stage.name,
                "began": self._began,
                "samples_before": self.samples_before,
                "given": self._given,
            }
        }

    def go_on(self, extra: Mapping[str, Any]) -> bool:
        """Continue from a checkpoint, or from a peer; return whether this begins the stage."""
        if self._stage is None:
            return False
        before = extra.get("stage") or {}
        self.samples_before = before.get("samples_before", 0)
        if before.get("name") == self._stage.name:
            self._began = before["began"]
            return False
        self._began = extra["step"]
        apply_changes(self._things, before.get("given", {}), self._given)
        return True

    @property
    def words(self) -> str:
        """Say which stage begins, and where."""
        assert self._stage is not None, "one begins"
        return f"stage {self._stage.name} begins after step {self._began}"

    def last_step(self, total: int | None, *, counts_here: bool) -> int | None:
        """Return the step that ends the stage; None: none does.

        `total` is what the script says, counted from the beginning of this stage if `counts_here`.
        """
        until = self._stage.until_step if self._stage is not None else None
        if total is not None and counts_here:
            total += self._began
        known = [end for end in (total, until) if end is not None]
        return min(known, default=None)
