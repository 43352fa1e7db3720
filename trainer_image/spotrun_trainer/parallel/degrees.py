"""The processes of one copy of the model, and what each of them does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Parallel:
    """The number of processes that hold one copy of the model, by how they divide the work.

    shard   each holds a part of every tensor, and trains on samples of its own (FSDP2)
    tensor  these compute on the same samples together, each a part of every layer that the script
            divides (`parallelize_module`); neighbours, for they exchange the most
    pipeline  each has some of the layers, and hands its results on (`PipelineStage`); by itself
    """

    shard: int = 1
    tensor: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        if min(self.shard, self.tensor, self.pipeline) < 1:
            raise ValueError(f"{self}: at least one process holds the model")
        if self.pipeline > 1 and self.shard * self.tensor > 1:
            raise ValueError(
                f"{self}: the stages of a pipeline are not divided further yet, so a stage is held "
                "by one process: give pipeline= alone, or shard= and tensor= without it"
            )

    @property
    def size(self) -> int:
        """The number of processes of a copy."""
        return self.shard * self.tensor * self.pipeline
