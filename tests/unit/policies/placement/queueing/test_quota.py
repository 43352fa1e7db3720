"""What a job needs of a quota, by the words in which it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.placement.queueing.quota import need

GPU = "requests.nvidia.com/gpu"


def refusal(requested: str) -> str:
    return f"exceeded quota: few, requested: {requested}, used: some, limited: all"


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (refusal("pods=1"), "pods=4"),
        (refusal(f"{GPU}=8"), f"{GPU}=32"),
        (
            refusal("limits.cpu=500m,requests.memory=64Gi"),
            "limits.cpu=2000m,requests.memory=256Gi",
        ),
        (refusal("count/pods=1"), "count/pods=4"),
        (refusal("count/networkpolicies=1"), ""),
        (refusal("cpu=1e3,pods=1"), "pods=4"),
        (refusal(""), ""),
        ("exceeded quota in words of another version", ""),
        ("", ""),
    ],
)
def test_four_workers_need_four_times_what_one_asked_for(words: str, needed: str) -> None:
    assert need(words, 4) == needed


@given(st.text())
def test_whatever_is_said_can_be_looked_at(words: str) -> None:
    need(f"requested: {words}, used: ", 4)
