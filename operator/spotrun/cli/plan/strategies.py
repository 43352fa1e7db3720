"""The bytes of each GPU, by how a model's copies are spread over GPUs. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override

VARIANTS = ("as written", "checkpointed", "bf16", "bf16, checkpointed")
"""The ways to compute a microbatch, those that change less first."""
_VERSION = 2


@dataclass(frozen=True)
class Needs:
    """The needs of a script as they were measured; each field as `spotrun_trainer` writes it."""

    parameters: int
    weight_bytes: int
    gradient_bytes: int
    sum_bytes: int
    optimizer_bytes: int
    update_bytes: int
    block_bytes: int
    rest_bytes: int
    behind_bytes: int
    blocks: int
    microbatch: int
    global_batch: int
    weight_per_sample: float | None
    flops: int
    activation_bytes: dict[str, int]
    block_activations: dict[str, dict[str, int]]
    left_out: dict[str, str]

    @property
    def variants(self) -> tuple[str, ...]:
        """The ways to compute a microbatch that were measured."""
        return tuple(one for one in VARIANTS if one in self.activation_bytes)

    @classmethod
    def read(cls, found: dict[str, Any]) -> "Needs":
        """Read what the trainer has printed; a ValueError says what is wrong with it."""
        if found.get("version") != _VERSION:
            raise ValueError(
                f"the needs are of version {found.get('version')}, and this program reads "
                f"{_VERSION}: use the same version of spotrun for both"
            )
        try:
            return cls(**{name: found[name] for name in cls.__dataclass_fields__})
        except KeyError as error:
            raise ValueError(f"the needs lack {error}") from None


class Strategy(StrEnum):
    """The ways to spread a model, or a stage of it."""

    COPIES = "a copy on each GPU"
    SHARDED = "sharded over"
    TENSOR = "tensor over"


@dataclass(frozen=True)
class Spread:
    """A strategy, with the number of GPUs that hold a copy together, or one of its stages."""

    strategy: Strategy
    gpus: int = 1
    stages: int = 1

    @override
    def __str__(self) -> str:
        one = self.strategy if self.gpus == 1 else f"{self.strategy} {self.gpus} GPUs"
        if self.stages == 1:
            return one
        return f"{self.stages} stages, {'a GPU each' if self.gpus == 1 else f'each {one}'}"


def bytes_per_gpu(needs: Needs, spread: Spread, variant: str) -> int:
    """Return the most that a GPU holds: weights, optimizer and sums, and a microbatch or an update.

    A copy on each GPU is measured, except the second copy of the weights in bf16. Sharded, each GPU
    has its part of what is held, and gathers the blocks in use. Tensor parallelism is only
    estimated. With several stages, `needs` are those of one stage.
    """
    held = needs.weight_bytes + needs.optimizer_bytes + needs.sum_bytes
    working = _working(needs, spread, variant)
    return -(-held // spread.gpus) + max(working, -(-needs.update_bytes // spread.gpus))


def _working(needs: Needs, spread: Spread, variant: str) -> int:
    """Return the bytes in use while a microbatch is computed."""
    activations = needs.activation_bytes[variant]
    gradients = -(-needs.gradient_bytes // spread.gpus)
    size = 2 if variant.startswith("bf16") else 1  # how many numbers fit into 32 bits
    match spread.strategy:
        case Strategy.COPIES:
            short = needs.weight_bytes // 2 if size == 2 else 0  # autocast's copy of weights
            return activations + gradients + short
        case Strategy.SHARDED:
            # FSDP2 gathers a block while the one before is computed, and what is in no block stays
            # gathered; in addition the gradient of one of them is whole until it is summed.
            gathered = 2 * needs.block_bytes + needs.rest_bytes
            whole = max(needs.block_bytes, needs.rest_bytes)
            if spread.stages > 1:  # a schedule keeps both whole from its first backward to its end
                gathered, whole = needs.weight_bytes, needs.gradient_bytes
            return activations + gradients + (gathered + whole) // size
        case Strategy.TENSOR:
            # Korthikanti et al. 2022, eq. 2: of 34 parts that a block keeps 24 are divided.
            return round(activations * (10 + 24 / spread.gpus) / 34) + gradients
