"""docs/clouds.md names every mark that is read on nodes."""

from pathlib import Path

import pytest

from spotrun.api import names
from spotrun.observe.nodes import cloud_labels, interruption_notices
from spotrun.observe.pools import autoscaler_events

PAGE = (Path(__file__).parents[3] / "docs/clouds.md").read_text()
MARKS = [
    *names.INSTANCE_TYPE_LABELS,
    *names.ZONE_LABELS,
    *names.REGION_LABELS,
    *cloud_labels._ACCELERATOR_LABELS,
    *cloud_labels.SPOT_TAINTS,
    *sorted(interruption_notices._LEADS),
    interruption_notices._AUTOSCALER,
    interruption_notices._KARPENTER_END,
    interruption_notices._NTH_EVENT,
    interruption_notices._NTH_TIME,
    interruption_notices.INTERRUPTED,
    interruption_notices.REBALANCED,
    *autoscaler_events.AUTOSCALERS,
    *sorted(autoscaler_events._REFUSALS | autoscaler_events._PROMISES),
]


@pytest.mark.parametrize("mark", MARKS)
def test_every_label_taint_and_event_is_on_the_page(mark: str) -> None:
    assert f"`{mark}`" in PAGE


def test_every_word_for_a_kind_of_capacity_is_on_the_page() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    for label, values in cloud_labels.CAPACITY_LABELS:
        (row,) = (row for row in rows if f"| `{label}` |" in row)
        assert all(f"`{value}`" in row for value in values), label
