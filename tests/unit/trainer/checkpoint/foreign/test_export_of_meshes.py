"""Checkpoints of sharded, tensor-parallel and pipelined trainings are exported as whole models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, distributed

from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.tools.command_line import main
from spotrun_trainer.checkpoint.tools.found import find
from spotrun_trainer.checkpoint.tools.listing import writers_of
from spotrun_trainer.parallel.local import local
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.checkpoint.states import is_same
from tests.unit.trainer.run.fully_sharded import (
    Blocks,
    FullySharded,
    begun,
    train_and_show,
    whole_state,
)

PLAN = FullySharded(shard=2, tensor=2, rows=7, total=2, global_batch=24)


def exported(checkpoint: Path, kind: str, output: Path, *flags: str) -> Path:
    assert main(["export", str(checkpoint), "--format", kind, "--output", str(output), *flags]) == 0
    return output


def of_model(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix("model/"): one for name, one in state.items() if "model/" in name}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Tensor]]:
    """A checkpoint of four processes, each with a quarter of most tensors; and the whole state."""
    folder = tmp_path_factory.mktemp("trained") / "checkpoints"
    ended = run_world(4, train_and_show, replace(PLAN, checkpoint=str(folder)))
    assert [one.error for one in ended] == [""] * 4, ended[0].said
    return folder, whole_state([one.value for one in ended])


def test_both_dimensions_are_known(trained: tuple[Path, dict[str, Tensor]]) -> None:
    saved = Saved(*find(str(trained[0])))

    assert writers_of(saved) == "4 processes: 1 copy in 4 parts (shard, tensor)"
    found = {name for name in saved.specs if name.startswith("model/")}
    assert found == {f"model/{name}" for name in of_model(trained[1])}
    # Its optimizer is shown by the names of parameters, and saved by their numbers.
    assert len(saved.specs) == len(trained[1])


def test_safetensors_and_torch_have_the_whole_model(
    trained: tuple[Path, dict[str, Tensor]], tmp_path: Path
) -> None:
    checkpoint, expected = trained
    files = {kind: exported(checkpoint, kind, tmp_path / kind) for kind in ("safetensors", "torch")}
    for found in (
        safetensors.torch.load_file(files["safetensors"]),
        torch.load(files["torch"], weights_only=True),
    ):
        assert set(found) == set(of_model(expected))
        assert all(is_same(one, found[name]) for name, one in of_model(expected).items())


def load_with_dcp(folder: str) -> dict[str, Tensor]:
    """Load as a script of torch's own does, that shards with FSDP2; returns whole tensors."""
    # Not for all processes of these tests: it takes them a second.
    from torch.distributed.checkpoint.state_dict_loader import load  # noqa: PLC0415
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    distributed.init_process_group("gloo")
    model = Blocks(PLAN.rows)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    state: dict[str, Any] = model.state_dict()
    load(state, checkpoint_id=folder)
    whole = {
        name: one.full_tensor() if hasattr(one, "full_tensor") else one
        for name, one in state.items()
    }
    distributed.destroy_process_group()
    return whole


def test_dcp_is_read_by_torch_in_two_processes(
    trained: tuple[Path, dict[str, Tensor]], tmp_path: Path
) -> None:
    checkpoint, expected = trained
    folder = exported(checkpoint, "dcp", tmp_path / "dcp")
    for ended in run_world(2, load_with_dcp, str(folder)):
        assert not ended.error, ended.said
        assert all(torch.equal(one, ended.value[name]) for name, one in of_model(expected).items())


def load_with_run(plan: FullySharded, paths: list[str]) -> list[dict[str, Tensor]]:
    """Begin a training with weights; returns this process's parts of them."""
    run, model, _ = begun(plan)
    found = []
    for path in paths:
        for one in model.parameters():
            local(one).detach().zero_()
        run.load(model, path)
        found.append({name: local(one).clone() for name, one in model.state_dict().items()})
    return found


def test_a_sharded_training_begins_with_an_export(
    trained: tuple[Path, dict[str, Tensor]], tmp_path: Path
) -> None:
    checkpoint, expected = trained
    hugging_face = exported(checkpoint, "hf", tmp_path / "hf", "--shard-size", "300B")
    paths = [str(checkpoint), str(hugging_face), str(exported(checkpoint, "dcp", tmp_path / "dcp"))]
    ended = run_world(2, load_with_run, replace(PLAN, tensor=1), paths)
    assert [one.error for one in ended] == ["", ""], ended[0].said
    for first, second in zip(ended[0].value, ended[1].value, strict=True):
        for name, whole in of_model(expected).items():
            is_whole = first[name].shape == whole.shape == second[name].shape
            found = first[name] if is_whole else torch.cat([first[name], second[name]])
            assert torch.equal(found, whole), name


def test_the_stages_of_a_pipeline_are_one_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "checkpoints"
    plan = FullySharded(shard=1, pipeline=2, total=2, microbatch=4, checkpoint=str(checkpoint))
    ended = run_world(2, train_and_show, plan)
    assert [one.error for one in ended] == ["", ""], ended[0].said
    expected = of_model(whole_state([one.value for one in ended]))
    found = torch.load(exported(checkpoint, "torch", tmp_path / "model.pt"), weights_only=True)

    assert set(found) == set(expected)
    assert all(torch.equal(one, found[name]) for name, one in expected.items())
    assert main(["checkpoints", "show", str(checkpoint)]) == 0
    flags = ["--with-optimizer", "--output", str(tmp_path / "both.pt")]
    assert main(["export", str(checkpoint), "--format", "torch", *flags]) == 0, capsys.readouterr()
