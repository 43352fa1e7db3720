"""Each test has a cache of its own."""

from pathlib import Path

import pytest

from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeCache:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    return node_cache()
