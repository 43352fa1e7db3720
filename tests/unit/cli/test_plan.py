"""`kubectl tjob plan`: from needs to machines, as tables, and as it is typed."""

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path

import pytest

from spotrun.cli.kubectl import main
from spotrun.cli.plan.choice import Assumptions, Option, options
from spotrun.cli.plan.machines import Machine, machines
from spotrun.cli.plan.stages import bytes_by_stage, can_be_staged, stage_of
from spotrun.cli.plan.strategies import Needs, Spread, Strategy, bytes_per_gpu

GIB = 2**30
NEEDS = Needs(
    parameters=4 * 2**30,
    weight_bytes=16 * GIB,
    gradient_bytes=16 * GIB,
    sum_bytes=16 * GIB,
    optimizer_bytes=32 * GIB,
    update_bytes=8 * GIB,
    block_bytes=GIB,
    rest_bytes=2 * GIB,
    behind_bytes=GIB,
    blocks=14,
    microbatch=2,
    global_batch=16,
    weight_per_sample=100.0,
    flops=600 * 10**12,
    activation_bytes={
        "as written": 20 * GIB,
        "checkpointed": 4 * GIB,
        "bf16": 10 * GIB,
        "bf16, checkpointed": 2 * GIB,
    },
    block_activations={
        "as written": {
            "before": GIB,
            "kept": GIB,
            "work": 2 * GIB,
            "after": 5 * GIB,
            "passed": GIB // 4,
            "result": GIB // 2,
        }
    },
    left_out={},
)
COPIES = Spread(Strategy.COPIES)


@pytest.mark.parametrize(
    ("spread", "variant", "gib"),
    [
        (COPIES, "as written", 64 + 16 + 20),
        (COPIES, "checkpointed", 64 + 16 + 4),
        (COPIES, "bf16", 64 + 16 + 10 + 8),  # the weights once more, in half the bytes
        (Spread(Strategy.SHARDED, 8), "as written", 8 + 2 + 20 + (2 * 1 + 2) + 2),
        (Spread(Strategy.SHARDED, 8), "bf16", 8 + 2 + 10 + ((2 * 1 + 2) + 2) / 2),
        (Spread(Strategy.TENSOR, 8), "as written", 8 + 2 + 20 * (10 + 24 / 8) / 34),
    ],
)
def test_each_gpu_holds_its_part_and_what_it_works_on(
    spread: Spread, variant: str, gib: float
) -> None:
    assert bytes_per_gpu(NEEDS, spread, variant) == pytest.approx(gib * GIB, abs=1)


def test_each_stage_holds_its_layers_and_the_microbatches_in_flight() -> None:
    """Of 16 GiB a block has 1, and the first and the last stage have 1 more."""
    first, last = bytes_by_stage(NEEDS, Spread(Strategy.COPIES, stages=2), "as written")
    held = (7 + 1) / 16 * (64 + 16)
    assert first == (held + 2 * (1 + 7) + 2) * GIB
    assert last == (held + (1 / 4 + 7) + (5 + 1 / 2) + 4 / 4) * GIB
    middle = bytes_by_stage(NEEDS, Spread(Strategy.COPIES, stages=7), "as written")[3]
    assert middle == (2 / 16 * (64 + 16) + 4 * (1 / 4 + 2) + 2 + 14 / 4) * GIB


def test_a_sharded_stage_has_weights_and_gradients_whole_while_a_schedule_runs() -> None:
    one, two = (
        bytes_by_stage(NEEDS, Spread(Strategy.SHARDED, gpus, stages=2), "as written")[0]
        for gpus in (4, 8)
    )
    weights = 8 * GIB
    assert two == weights * 4 / 8 + weights / 8 + (2 * (1 + 7) + 2) * GIB + 2 * weights
    assert one - two == weights * 4 / 8 + weights / 8


def test_stages_make_up_the_whole() -> None:
    for stages in range(2, 15):
        parts = [stage_of(NEEDS, one, stages, "as written") for one in range(stages)]
        assert sum(one.blocks for one in parts) == NEEDS.blocks
        for name in ("weight_bytes", "optimizer_bytes", "sum_bytes", "rest_bytes"):
            whole = getattr(NEEDS, name)
            assert sum(getattr(one, name) for one in parts) == pytest.approx(whole, abs=stages)


def test_a_model_has_no_more_stages_than_blocks() -> None:
    assert can_be_staged(NEEDS, 14, "as written")
    assert not can_be_staged(NEEDS, 15, "as written")
    assert not can_be_staged(NEEDS, 2, "bf16")  # whose blocks were not measured


def test_an_update_may_need_more_than_a_microbatch() -> None:
    needs = replace(NEEDS, update_bytes=50 * GIB)
    assert bytes_per_gpu(needs, COPIES, "as written") == (64 + 50) * GIB


def machine(name: str, gpus: int, gib: int, usd: str, gpu: str = "h100") -> Machine:
    return Machine(name, gpu, gpus, gib * GIB, Decimal(usd), "here")


def chosen(*of: Machine, usable: float = 1.0) -> list[Option]:
    found, _ = options(NEEDS, of, Assumptions(usable=usable, utilization=0.5))
    return [one for one in found if not one.variant.startswith("bf16")]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ([machine("one", 1, 100, "5")], ("one", 1, 1, "as written")),
        ([machine("one", 1, 99, "5")], ("one", 1, 1, "checkpointed")),
        # Within a node, though two small ones would be cheaper.
        ([machine("one", 1, 70, "1"), machine("two", 2, 70, "9")], ("two", 2, 1, "as written")),
        ([machine("one", 1, 70, "1")], ("one", 2, 2, "as written")),
        # The cheaper of two that hold it, though it must compute more.
        ([machine("a", 1, 84, "1"), machine("b", 1, 100, "2")], ("a", 1, 1, "checkpointed")),
    ],
)
def test_the_cheapest_node_that_holds_a_copy_is_chosen(
    of: list[Machine], expected: tuple[str, int, int, str]
) -> None:
    ((one),) = chosen(*of)
    assert (one.machine.instance_type, one.spread.gpus, one.nodes, one.variant) == expected


def test_of_a_gpu_only_the_usable_share_is_filled() -> None:
    ((one),) = chosen(machine("one", 1, 100, "5"), usable=0.9)
    assert (one.variant, one.bytes_per_gpu) == ("checkpointed", 84 * GIB)


def test_dollars_follow_from_counted_operations_at_a_stated_utilization() -> None:
    found, _ = options(NEEDS, [machine("one", 1, 100, "3.6")], Assumptions(1.0, 0.5))
    short = next(one for one in found if one.variant == "bf16")
    # 3e12 operations for each of 1e9 targets, at half of 989e12 a second, for 0.001 $ a second.
    assert short.usd_per_billion == pytest.approx(3e21 / (989e12 * 0.5) * 0.001)
    assert next(one for one in found if one.variant == "as written").usd_per_billion is None


def test_what_no_machine_holds_is_said() -> None:
    found, none = options(NEEDS, [machine("small", 1, 3, "1")], Assumptions(1.0, 0.5))
    assert (found, none) == ([], ["h100, as written", "h100, bf16"])


def test_gpus_without_bf16_are_offered_none() -> None:
    found, none = options(NEEDS, [machine("old", 8, 100, "1", gpu="v100")], Assumptions(1.0, 0.5))
    assert ([one.variant for one in found], none) == (["as written"], [])


def test_every_machine_of_the_tables_has_a_price_and_memory() -> None:
    of_h100 = [one for one in machines() if one.gpu == "h100"]
    assert {one.instance_type: one.gpus for one in of_h100} == {
        "p5.4xlarge": 1,
        "p5.48xlarge": 8,
        "a3-highgpu-8g": 8,
    }
    assert all(one.usd_per_hour > 0 and one.memory_bytes > 2 * GIB for one in machines())


def test_needs_measured_elsewhere_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "needs.json"
    kept.write_text(json.dumps({**asdict(NEEDS), "version": 2}))
    assert main(["plan", "--needs", str(kept), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_per_gpu"]["2 stages, a GPU each"] == {"as written": 58 * GIB}
    assert len(found["bytes_by_stage"]["8 stages, a GPU each"]["as written"]) == 8
    assert found["bytes_per_gpu"]["a copy on each GPU"]["as written"] == 100 * GIB
    assert main(["plan", "--needs", str(kept)]) == 0
    printed = capsys.readouterr().out
    assert "activations, as written                 20.0" in printed
    assert "40% of its 16-bit speed" in printed
    assert "8 stages, each sharded over 8 GPUs" in printed
    assert "GiB on each GPU of 8 stages, from the first to the last" in printed


JOB = """
apiVersion: spotrun.dev/v1alpha1
kind: TrainingJob
metadata: {name: lm}
spec:
  workers:
    template:
      spec:
        containers: [{name: trainer, image: train:1, args: [/app/train.py, --width, "32"]}]
  checkpoint: {volume: {persistentVolumeClaim: {claimName: checkpoints}}}
"""
SCRIPT = """
import sys
import torch
from spotrun_trainer import Run
run = Run()
model = run.prepare(torch.nn.Linear(int(sys.argv[2]), 1, bias=False))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
run.track(model=model, opt=opt)
for step in run.steps([torch.ones(int(sys.argv[2]))] * 8, global_batch=8, microbatch=4):
    with step:
        for x in step:
            step.backward(model(x).sum(), weight=len(x))
        step.update(opt)
"""


def test_a_script_is_measured_with_the_arguments_of_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, script = tmp_path / "job.yaml", tmp_path / "train.py"
    job.write_text(JOB)
    script.write_text(SCRIPT)
    assert main(["plan", "-f", str(job), "--script", str(script), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["needs"]["weight_bytes"] == 4 * 32


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "give --script, or --needs"),
        (["--needs", "absent.json"], "absent.json cannot be read"),
        (["-f", "JOB", "--script", "other.py"], "does not run other.py"),
        (["--script", "absent.py"], "absent.py cannot be planned: there is no such file"),
        (["--script", ""], "cannot be planned"),
        (["--script", "absent.py", "--usable", "0"], "shares above 0"),
        (["-f", "JOB", "--needs", "absent.json"], "with --needs it has no use"),
    ],
)
def test_what_cannot_be_planned_is_said(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    with pytest.raises(SystemExit) as ended:
        main(["plan", *(str(tmp_path / "job.yaml") if one == "JOB" else one for one in flags)])
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended it; memory may have run out"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV ended it"),
        ("raise RuntimeError('first\\nsecond\\n\\n')", "RuntimeError: first second (line 1: raise"),
    ],
    ids=["killed", "crashed", "an error of several lines"],
)
def test_why_a_script_ended_is_said(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(line)
    with pytest.raises(SystemExit):
        main(["plan", "--script", str(script)])
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{script} cannot be planned" in printed
    assert said in printed


def test_a_script_that_hangs_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(600)")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--script", str(script), "--timeout", "0.01"])
    assert ended.value.code == 2
    assert "within 0.01 minutes, and was ended" in " ".join(capsys.readouterr().err.split())


# A process that the script started has the script's pipes, too.
HANGS = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({fifo!r}, "w") as pids:
    print(os.getpid(), other.pid, file=pids)
time.sleep(600)
"""


# What a shell runs in the background is started with the signal ignored, and so are its children.
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def test_an_interrupt_ends_the_script_and_what_it_has_started(tmp_path: Path) -> None:
    script, fifo = tmp_path / "train.py", tmp_path / "pids"
    script.write_text(HANGS.format(fifo=str(fifo)))
    os.mkfifo(fifo)
    asks = f"from spotrun.cli.kubectl import main; main(['plan', '--script', {str(script)!r}])"
    command = [sys.executable, "-c", f"{HEARS}; {asks}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as asked:
        started = [os.pidfd_open(int(pid)) for pid in fifo.read_text().split()]
        asked.send_signal(signal.SIGINT)
        _, said = asked.communicate(timeout=60)
    assert "interrupted before its end" in said
    for process in started:
        assert select.select([process], [], [], 30)[0], "it was not ended"
        os.close(process)
    assert len(started) == 2


def test_without_pytorch_it_is_said_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spotrun.cli.plan.command.find_spec", lambda _name: None)
    with pytest.raises(SystemExit):
        main(["plan", "--script", "train.py"])
    said = " ".join(capsys.readouterr().err.split())
    assert "pip install 'spotrun[trainer]'" in said
    assert "python -m spotrun_trainer.loop.memory train.py > needs.json" in said
