"""transformers reads what is exported for it, and a training begins with what it has written."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from spotrun_trainer.checkpoint.foreign.reading.loading import load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.checkpoint.tools.command_line import main
from tests.unit.trainer.checkpoint.states import is_same, save, tracked

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def tiny(seed: int, *, tied: bool) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("flags", [["--shard-size", "5kB"], ["--gather"]])
def test_from_pretrained_reads_an_export(tmp_path: Path, flags: list[str], tied: bool) -> None:
    model, other = tiny(1, tied=tied), tiny(2, tied=tied)
    other.save_pretrained(tmp_path / "base")  # the configuration that the training began with
    (tmp_path / "base/tokenizer_config.json").write_text("{}")
    (tmp_path / "base/config.json").rename(tmp_path / "blob")  # as a cache keeps files
    (tmp_path / "base/config.json").symlink_to(tmp_path / "blob")
    save(tmp_path / "checkpoints", tracked(model=model).flatten(), size=2)
    config = ["--config", str(tmp_path / "base"), "--output", str(tmp_path / "out"), *flags]
    assert main(["export", str(tmp_path / "checkpoints"), "--format", "hf", *config]) == 0

    files = {one.name for one in (tmp_path / "out").iterdir()}
    assert {"config.json", "tokenizer_config.json"} <= files
    assert not (tmp_path / "out/config.json").is_symlink()
    assert ("model.safetensors" in files) == ("--gather" in flags)
    found, notes = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(notes[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for name, one in model.state_dict().items():
        assert is_same(found.state_dict()[name], one), name
    assert (found.lm_head.weight is found.model.embed_tokens.weight) == tied


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_begins_with_what_save_pretrained_wrote(tmp_path: Path, dtype: torch.dtype) -> None:
    there, model = tiny(1, tied=True).to(dtype), tiny(2, tied=True)
    there.save_pretrained(tmp_path, max_shard_size="8KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    loaded = load_into(model, open_source(tmp_path))

    assert (loaded.prefix, list(loaded.unread)) == ("", [])
    for name, one in model.state_dict().items():
        assert torch.equal(one, there.state_dict()[name].float()), name
    inner = tiny(3, tied=True).model  # without the head, whose names there begin otherwise
    assert load_into(inner, open_source(tmp_path)).prefix == "model."
    assert torch.equal(inner.norm.weight, model.model.norm.weight)
