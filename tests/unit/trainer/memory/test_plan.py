"""A plan's bytes, compared with those of a model that really trains, and scripts without a plan."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from spotrun_trainer import Run
from spotrun_trainer.loop.memory.blocks import checkpoint_blocks
from spotrun_trainer.loop.memory.needs import Needs
from tests.unit.trainer.memory import lm

SCRIPT = Path(lm.__file__)
MARGIN = 0.05
"""The margin that docs/which-parallelism.md states."""


@pytest.fixture(scope="module")
def needs() -> Needs:
    return Run.plan(SCRIPT)


def test_weights_gradients_and_optimizer_state_are_counted_to_the_byte(needs: Needs) -> None:
    model = lm.LM()
    opt = torch.optim.AdamW(model.parameters())
    x, y = lm.data()[:8]
    cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()  # type: ignore[no-untyped-call]
    gradients = sum(one.grad.nbytes for one in model.parameters() if one.grad is not None)
    opt.step()

    assert needs.weight_bytes == sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
    assert (needs.gradient_bytes, needs.sum_bytes) == (gradients, gradients)
    assert needs.optimizer_bytes == sum(
        tensor.nbytes for state in opt.state.values() for tensor in state.values()
    )
    assert needs.parameters == needs.trained == sum(one.numel() for one in model.parameters())
    assert needs.block_bytes == sum(one.nbytes for one in model.blocks[0].parameters())
    assert (needs.blocks, needs.microbatch, needs.global_batch) == (3, 8, 16)
    assert needs.weight_per_sample == lm.TOKENS


def test_what_blocks_and_the_rest_keep_makes_up_the_whole(needs: Needs) -> None:
    for variant, seen in needs.block_activations.items():
        kept = seen["before"] + needs.blocks * seen["kept"]
        assert needs.activation_bytes[variant] == kept + max(seen["after"], seen["work"])
    assert set(needs.block_activations) == set(needs.activation_bytes)
    assert needs.behind_bytes == sum(one.nbytes for one in lm.LM().head.parameters())


def test_where_the_size_is_found_by_trying_one_sample_is_measured(
    tmp_path: Path, needs: Needs
) -> None:
    script = tmp_path / "train.py"
    text = SCRIPT.read_text().replace("microbatch=8", 'microbatch="auto"')
    text = text.replace("run.prepare(LM())", 'run.prepare(LM(), precision="fp16")')
    text = text.replace("    run.track(", "    bf16_state(opt)\n    run.track(")
    script.write_text(text.replace("import Run\n", "import Run, bf16_state\n"))
    found = Run.plan(script)
    assert (found.microbatch, found.global_batch) == (1, 16)
    assert found.activation_bytes["as written"] < needs.activation_bytes["as written"] / 4
    num_moments = 2 * found.parameters
    assert found.optimizer_bytes - 2 * num_moments == needs.optimizer_bytes - 4 * num_moments


@pytest.mark.parametrize("variant", ["as written", "checkpointed", "bf16"])
def test_activations_are_those_that_the_allocator_hands_out(needs: Needs, variant: str) -> None:
    model = lm.LM()
    if "checkpointed" in variant:
        checkpoint_blocks(model, "full")
    if "bf16" in variant:
        model.bfloat16()

    def compute() -> None:
        x, y = lm.data()[:8]
        cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()  # type: ignore[no-untyped-call]

    taken = most_taken(compute, model)
    assert needs.activation_bytes[variant] == pytest.approx(taken, rel=MARGIN)


def test_checkpointing_and_short_numbers_need_less(needs: Needs) -> None:
    found = needs.activation_bytes
    assert found["bf16, checkpointed"] < found["checkpointed"] < found["as written"]
    assert found["bf16"] < found["as written"]
    assert needs.left_out == {}


def most_taken(compute: Callable[[], None], model: nn.Module) -> int:
    """The most that a CPU's allocator had handed out at once, without what ends in gradients."""
    kept = 0

    def grown(weight: torch.Tensor) -> None:
        assert weight.grad is not None
        marks.append(torch.profiler.record_function(f"grad {weight.grad.nbytes}"))
        with marks[-1]:
            torch.empty(0)

    marks: list[torch.profiler.record_function] = []
    for one in model.parameters():
        one.register_post_accumulate_grad_hook(grown)  # type: ignore[no-untyped-call]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        compute()
    now = most = 0
    events = sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    for event in events:
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now - kept)
        elif event.name().startswith("grad "):
            kept += int(event.name().split()[1])
    return most


def planned(folder: Path, body: str, timeout_seconds: float = 600) -> Needs:
    """The plan of a script with such a loop."""
    script = folder / "train.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "from spotrun_trainer import Run\n"
        "run = Run(seed=1)\n" + body
    )
    return Run.plan(script, timeout_seconds=timeout_seconds)


LOOP = """
model = run.prepare(nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
run.track(model=model, opt=opt)
for step in run.steps([torch.ones(8)] * 8, global_batch=8, microbatch=4):
    with step:
        for x in step:
            loss = model(x).sum()
            {extra}
            step.backward(loss, weight=len(x))
        step.update(opt)
"""


NESTED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(3))

    def forward(self, x):
        return sum(one(x) for one in self.experts)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.blocks[1].experts[0].weight = self.blocks[0].experts[0].weight
        self.last = nn.Linear(8, 1, bias=False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)
"""


def test_what_is_in_no_block_is_counted_once(tmp_path: Path) -> None:
    needs = planned(tmp_path, NESTED + LOOP.replace("nn.Linear(8, 1)", "Model()").format(extra=""))
    assert (needs.blocks, needs.block_bytes, needs.rest_bytes) == (2, 3 * 256, 32)
    assert needs.behind_bytes == 32
    assert needs.weight_bytes == 5 * 256 + 32


def test_a_model_larger_than_any_memory_is_planned(tmp_path: Path) -> None:
    layers = "nn.Sequential(*(nn.Linear(1 << 14, 1 << 14, bias=False) for _ in range(1000)))"
    loop = LOOP.replace("nn.Linear(8, 1)", layers).replace("ones(8)", "ones(1 << 14)")
    needs = planned(tmp_path, loop.format(extra=""))
    assert needs.weight_bytes == 1000 * 2**30
    assert needs.left_out["checkpointed"] == "the model has no nn.ModuleList of blocks"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (LOOP.format(extra="print(float(loss))"), "its step reads the content of a tensor"),
        ("", "ended without run.steps"),
        ("raise SystemExit(3)", "ended by itself, with 3"),
        ("run.mesh", "run.mesh does not exist in a plan"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended it; memory may have run out"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV ended it"),
    ],
)
def test_a_script_that_cannot_be_planned_is_told_why(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be planned.*{said}"):
        planned(tmp_path, body)


def test_a_script_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be planned: .* within 0\.5 s, and was ended"):
        planned(tmp_path, "import time; time.sleep(600)", timeout_seconds=0.5)


def test_bf16_by_autocast_is_planned_as_written(tmp_path: Path) -> None:
    cast = "with torch.autocast(run.device.type, dtype=torch.bfloat16): loss = model(x).sum()"
    needs = planned(tmp_path, LOOP.format(extra=cast))
    assert needs.flops > 0
