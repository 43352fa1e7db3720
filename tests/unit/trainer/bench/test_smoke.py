"""Each bench of the trainer that needs no cluster runs to its end in a small size."""

import pytest

from tests.support.processes.benches import figures_of

TIMEOUT_SECONDS = 600.0  # hangs; beside other tests a minute of computing takes several

WAYS = ("", "_dcp_async", "_dcp_sync")  # ours, and those of torch
PRINTED = {
    "checkpoint": {
        *(f"checkpoint_call_ms{way}" for way in WAYS),
        *(f"checkpoint_step_ratio{way}" for way in WAYS[:2]),  # nothing runs beside the last one
        *(f"checkpoint_upload_seconds{way}" for way in WAYS),
        "checkpoint_call_3000_ms",
        "checkpoint_urgent_in_time",
        "checkpoint_urgent_seconds",
        "checkpoint_load_seconds",
    },
    "column_cut": {"column_cut_seconds", "column_cut_extra_mib"},
    "compression": {
        *(
            f"compression_{what}"
            for what in ("bytes", "step_ms", "val_loss", "vs_plain", "codec_ms")
        ),
    },
    "device_check": {
        "check_step_ratio",
        "check_false_alarms",
        "check_found_steps",
        "speed_check_seconds",
    },
    "many_ranks": {
        "completion_opens_per_rank",
        "last_completion_opens_per_rank",
        "restore_bytes_ratio",
        "restore_opens_per_rank",
        "transfer_skew",
        "transfer_copies_per_node",
    },
    "commit": {"commit_states_explored", "commit_unsound", "commit_broken_found"},
    "overhead": {
        "throughput_unused_vs_ddp",
        "throughput_two_optimizers_vs_ddp",
        "compare_overhead_percent",
        "run_overhead_percent",
        "meter_span_microseconds",
        "trace_span_microseconds",
    },
    "parallel": {
        "parallel_mismatches",
        "reshard_mismatches",
        "copy_lost_stall_seconds",
        "copy_whole_again_seconds",
        "steps_lost",
        "state_sources_ratio",
        "throughput_vs_fsdp2",
        "memory_vs_fsdp2",
    },
    "uneven": {
        "uneven_step_ratio",
        "equal_step_ratio",
        "uneven_samples_wrong",
        "uneven_hash_equal",
        "deal_milliseconds",
    },
}


@pytest.mark.parametrize("name", PRINTED)
def test_bench_ends_well_and_prints_its_figures(name: str) -> None:
    figures = figures_of(name, "--quick", timeout_seconds=TIMEOUT_SECONDS)
    assert {line["metric"] for line in figures} >= PRINTED[name]
    assert all(line["unit"] for line in figures)
    by_name = {line["metric"]: line for line in figures}
    if name == "uneven":
        assert by_name["uneven_samples_wrong"]["value"] == 0
        assert by_name["uneven_hash_equal"]["value"] == 1
    if name == "device_check":
        assert by_name["check_false_alarms"]["value"] == 0
        assert by_name["check_found_steps"]["value"] < by_name["check_found_steps"]["every"]
    if name == "commit":
        assert by_name["commit_unsound"]["value"] == 0
        assert by_name["commit_broken_found"]["value"] == by_name["commit_broken_found"]["of"]
    if name == "many_ranks":  # counted, so true whatever else the machine does
        assert by_name["completion_opens_per_rank"]["value"] <= 3
        assert by_name["completion_opens_per_rank"]["markers"] == 1
        assert by_name["restore_bytes_ratio"]["value"] <= 1.1
        assert by_name["transfer_skew"]["value"] <= 1.2
        assert by_name["transfer_copies_per_node"]["value"] == 1


def test_what_counting_a_scripts_steps_costs_needs_no_cluster() -> None:
    figures = figures_of("scripts", "--quick", "--only=hook", timeout_seconds=TIMEOUT_SECONDS)
    assert [line["metric"] for line in figures] == ["hook_overhead_percent"]


def test_what_keeping_a_state_costs_needs_no_cluster() -> None:
    figures = figures_of("scripts_keep", "--quick", "--only=cost", timeout_seconds=TIMEOUT_SECONDS)
    found = [(line["metric"], line["state_mb"]) for line in figures]
    assert found == [("keep_step_ms", 10), ("keep_step_ms", 100)]
