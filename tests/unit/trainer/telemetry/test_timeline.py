from pathlib import Path
from typing import Any

import pytest

from spotrun_trainer.telemetry.timeline import (
    Line,
    activities_table,
    read,
    recoveries,
    recoveries_table,
    report,
)


def mark(t: float, event: str, worker: str = "w-1", **facts: Any) -> Line:
    return {"t": t, "mark": event, "worker": worker, **facts}


RECOVERY = [
    mark(100.0, "broken"),
    mark(100.5, "killed"),
    mark(101.9, "started", began=100.75),  # it says so only once it can
    mark(102.0, "imported"),
    mark(102.25, "group"),
    mark(103.25, "first step"),
]


def test_a_recovery_is_told_by_its_phases() -> None:
    (recovery,) = recoveries(RECOVERY)

    assert recovery.worker == "w-1"
    assert recovery.seconds == 3.25
    assert recovery.phases() == {
        "killed": 0.5,
        "started": 0.25,
        "imported": 1.25,
        "group": 0.25,
        "first step": 1.0,
    }


def test_marks_come_from_several_processes_and_files_in_any_order() -> None:
    (recovery,) = recoveries(
        [
            {**line, "worker": ("a.b-x-1", "a.b-x-1.0", "a.b-x-1.1")[index % 3]}
            for index, line in enumerate(RECOVERY[::-1])
        ]
    )

    assert recovery.worker == "a.b-x-1"
    assert sum(recovery.phases().values()) == recovery.seconds == 3.25


def test_a_mark_that_is_missing_leaves_its_time_to_the_next() -> None:
    (recovery,) = recoveries([line for line in RECOVERY if line["mark"] != "killed"])

    assert recovery.phases()["started"] == 0.75
    assert recovery.seconds == 3.25


def test_each_first_step_of_each_worker_is_one_and_others_are_none() -> None:
    first = [mark(10.0, "started"), mark(14.0, "first step")]
    other = [mark(11.0, "started", "w-2"), mark(15.0, "first step", "w-2")]
    unfinished = [mark(200.0, "broken")]
    found = recoveries([*RECOVERY, *first, *other, *unfinished, {"t": 1.0, "span": "data"}])

    assert [(one.worker, one.seconds) for one in found] == [
        ("w-1", 4.0),
        ("w-2", 4.0),
        ("w-1", 3.25),
    ]


def test_marks_of_a_recovery_that_is_over_are_none_of_the_next() -> None:
    again = [mark(300.0, "broken"), mark(302.0, "first step")]
    _, recovery = recoveries([*RECOVERY, *again])

    assert recovery.phases() == {"first step": 2.0}


def test_the_table_of_recoveries() -> None:
    start = [mark(10.0, "started"), mark(14.0, "first step")]

    assert recoveries_table(recoveries([*start, *RECOVERY])).splitlines() == [
        "to the first step of  -> killed  -> started  -> imported  -> group  -> first step  whole",
        "w-1                           -           -            -         -           4.00   4.00",
        "w-1                        0.50        0.25         1.25      0.25           1.00   3.25",
    ]


def step(compute: float, data: float) -> Line:
    return {"t": 1.0, "step": 2, "compute": compute, "data": data, "communicate": 0.0, "aside": 0.0}


def test_the_table_of_activities() -> None:
    lines = [
        step(1.0, 0.25),
        step(2.0, 0.25),
        step(3.0, 0.5),
        {"t": 1.0, "span": "data", "seconds": 0.25},  # which the steps have counted already
        {"t": 1.0, "span": "evaluate", "seconds": 1.0},
    ]

    assert activities_table(lines).splitlines() == [
        "activity     times  median ms  seconds  share",
        "compute          3    2000.00     6.00  75.0%",
        "data             3     250.00     1.00  12.5%",
        "evaluate         1    1000.00     1.00  12.5%",
        "communicate      3       0.00     0.00   0.0%",
    ]


def test_dealings_by_speed_have_a_table_if_there_are_any() -> None:
    each: dict[str, Any] = {"microbatches": [5, 5, 2], "sample_seconds": [0.1, 0.1, 0.2]}
    lines = [
        mark(1.0, "dealt", from_step=7, **each),
        mark(1.1, "dealt", "w-2", from_step=7, **each),
    ]

    assert report(lines).split("\n\n")[-1].splitlines() == [
        "from step  microbatches by copy  ms a sample by copy",
        "7                         5 5 2          100 100 200",
    ]
    assert "by copy" not in report([step(1.0, 0.25)])


def test_of_nothing_there_is_a_heading() -> None:
    assert activities_table([]) == "activity  times  median ms  seconds  share"


def test_a_line_that_was_cut_short_by_the_end_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"t": 1, "mark": "started", "worker": "w"}\n{"t": 2.0, "ma')

    assert list(read(file)) == [{"t": 1.0, "mark": "started", "worker": "w"}]


@pytest.mark.parametrize("line", ["[]", "{}", '{"t": "now"}', "no JSON"])
def test_other_files_are_refused_by_name_and_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(f'{{"t": 1}}\n{line}\n')

    with pytest.raises(ValueError, match=r"trace\.jsonl:2: "):
        list(read(file))
