"""The processes of one copy of the model, and what each of them does."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Parallel:
    """The number of processes that hold one copy of the model, by how they divide the work.

    shard   each holds a part of every tensor, and trains on samples of its own (FSDP2)
    tensor  these compute on the same samples together, each a part of every layer that the script
            divides (`parallelize_module`); neighbours, as they exchange the most
    pipeline  each has some of the layers, and hands its results on (`PipelineStage`); farthest
            apart, as they exchange the least
    """

    shard: int = 1
    tensor: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        if min(self.shard, self.tensor, self.pipeline) < 1:
            raise ValueError(f"{self}: at least one process must hold the model")

    @property
    def size(self) -> int:
        """The number of processes of a copy."""
        return self.shard * self.tensor * self.pipeline

    @property
    def of_stage(self) -> int:
        """The number of processes that hold one stage of a pipeline together."""
        return self.shard * self.tensor

    @property
    def dimensions(self) -> dict[str, int]:
        """The mesh of a copy: the sizes of its dimensions by name, the outermost first."""
        found = {"pp": self.pipeline} if self.pipeline > 1 else {}
        if self.of_stage > 1 or not found:
            found["shard"] = self.shard
        if self.tensor > 1:
            found["tensor"] = self.tensor
        return found

    def stage_of(self, number: int) -> int:
        """Return the stage that a process of a copy belongs to."""
        return number // self.of_stage

    def part_of(self, number: int) -> int:
        """Return the place of a process among those of its copy that have samples of their own."""
        return number // self.tensor % self.shard

    def has_loss(self, number: int) -> bool:
        """Whether a process of a copy knows the loss, and is the first that knows it."""
        return self.stage_of(number) == self.pipeline - 1 and number % self.tensor == 0

    def axis(self, name: str, number: int) -> range:
        """Return the processes of a copy that differ from one of them in one dimension only."""
        inner = {"pp": self.of_stage, "shard": self.tensor, "tensor": 1}[name]
        count = self.dimensions.get(name, 1)
        first = number - number // inner % count * inner
        return range(first, first + count * inner, inner)

    def axes(self, number: int) -> list[range]:
        """Return the groups that torch makes for a process of a copy, of some of its processes."""
        every = [self.axis(name, number) for name in self.dimensions]
        return [one for one in every if len(one) < math.prod(self.dimensions.values())]
