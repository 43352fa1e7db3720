"""The page on metrics leaves out none, and explains none that does not exist."""

import re
from pathlib import Path

import pytest

from tests.support.monitoring.every_metric import Exported, exported

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*)\| (.+) \|$", re.MULTILINE)
EXPORTED = exported()


def documented() -> dict[str, Exported]:
    return {
        name: Exported(name, kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in ROW.findall(PAGE)
    }


@pytest.mark.parametrize("name", EXPORTED)
def test_the_page_names_each_metric_with_its_type_and_labels(name: str) -> None:
    assert documented().get(name) == EXPORTED[name]


def test_the_page_explains_nothing_that_does_not_exist() -> None:
    assert set(documented()) - set(EXPORTED) == set()


@pytest.mark.parametrize("name", EXPORTED)
def test_names_follow_the_conventions_of_prometheus(name: str) -> None:
    kind = EXPORTED[name].kind

    assert name.startswith("spotrun_")
    assert name.endswith("_total") is (kind == "counter")
    # Base units only, and the unit at the end, where a _total may follow it.
    assert not re.search(r"_(milliseconds|ms|minutes|hours|percent|dollars)(_|$)", name)
