"""Names of writes, and which of them a run may do without."""

import pytest

from tests.plans.writes import Write, met_another

STATUS, POD = "patch trainingjobs/status", "create pods"
MADE = [Write(STATUS, nth=1), Write(STATUS, nth=2), Write(POD, "0"), Write("create events")]


@pytest.mark.parametrize(
    "text", ["patch trainingjobs/status #3", "create pods 0 #1", "create pods (dry run) 0 #1"]
)
def test_a_name_can_be_read(text: str) -> None:
    assert str(Write.read(text)) == text


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (Write(STATUS, nth=3), True),
        (Write("create events", nth=2), True),
        (Write(STATUS, nth=2), False),
        (Write(POD, "0", nth=2), False),
        (Write(POD, "1"), False),
        (Write("create leases"), False),
    ],
)
def test_only_a_later_status_or_event_can_be_told_with_another(
    write: Write, expected: bool
) -> None:
    assert met_another(write, MADE) is expected
