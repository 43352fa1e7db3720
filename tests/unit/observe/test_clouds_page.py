"""docs/clouds.md names every mark that is read on nodes."""

from pathlib import Path

import pytest

from spotrun.observe import autoscalers, dialects, notices

PAGE = (Path(__file__).parents[3] / "docs/clouds.md").read_text()
MARKS = [
    *dialects.INSTANCE_TYPE_LABELS,
    *dialects.ZONE_LABELS,
    *dialects.REGION_LABELS,
    *dialects._ACCELERATOR_LABELS,
    *dialects.SPOT_TAINTS,
    *sorted(notices._LEADS),
    notices._AUTOSCALER,
    notices._KARPENTER_END,
    notices._NTH_EVENT,
    notices._NTH_TIME,
    notices.INTERRUPTED,
    notices.REBALANCED,
    *autoscalers.AUTOSCALERS,
    *sorted(autoscalers._REFUSALS | autoscalers._PROMISES),
]


@pytest.mark.parametrize("mark", MARKS)
def test_every_label_taint_and_event_is_on_the_page(mark: str) -> None:
    assert f"`{mark}`" in PAGE


def test_every_word_for_a_kind_of_capacity_is_on_the_page() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    for label, values in dialects.CAPACITY_LABELS:
        (row,) = (row for row in rows if f"| `{label}` |" in row)
        assert all(f"`{value}`" in row for value in values), label
