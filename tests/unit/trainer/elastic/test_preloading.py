"""Which state a process begins to fetch while its script makes the model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spotrun_trainer.elastic import world_context
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.world_context import Context

BUCKET, NAME = "s3://bucket/job", "step-5.g1"


def preloaded(place: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the checkpoints that a context begins to fetch."""
    names = list[str]()
    monkeypatch.setattr(world_context, "FIRST_SHARDS", SimpleNamespace(look_up=lambda _find: None))
    context: Any = SimpleNamespace(
        rank_info=RankInfo(elastic=True, restore=NAME),
        checkpoints=SimpleNamespace(preload=lambda name, **_: names.append(name)),
        env=env,
        place=place,
    )
    Context.preload(context)
    return names


@pytest.mark.parametrize("place", [BUCKET, "/checkpoints"])
def test_the_state_is_fetched_from_a_store_alone(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert preloaded(place, {}, monkeypatch) == ([NAME] if place == BUCKET else [])


@pytest.mark.parametrize("case", ["not there", "empty", "with a step"])
def test_of_workers_with_a_local_tier_only_one_that_holds_nothing_fetches_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "local"
    if case != "not there":
        folder.mkdir()
    if case == "with a step":
        (folder / "step-7.g1").mkdir()
    names = preloaded(BUCKET, {"SPOTRUN_LOCAL": str(folder)}, monkeypatch)
    assert names == ([] if case == "with a step" else [NAME])
