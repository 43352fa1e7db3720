"""The recordings that are shipped: all can be read, and NOTICE says whose they are."""

from pathlib import Path

import pytest

from spotrun.simulate.market.trace import read

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "operator/spotrun/simulate/data").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem.split("__")[3])
def test_a_shipped_recording_is_read(path: Path) -> None:
    trace = read(path)

    assert trace.zone in path.name
    assert trace.start is not None
    assert trace.on_demand_usd_per_hour is not None
    assert trace.spot_usd_per_hour is not None


def test_the_recordings_are_small_and_their_authors_are_named() -> None:
    notice = (ROOT / "NOTICE").read_text()

    assert len(FILES) == 12
    assert sum(path.stat().st_size for path in FILES) < 3_000_000
    for source in {path.name.split("__")[0] for path in FILES}:
        assert f"{source}__*.json" in notice
