"""Each bench of the operator runs to its end in a small size and prints what it is there for."""

import pytest

from tests.support.processes.benches import figures_of

TIMEOUT_SECONDS = 600.0  # hangs; beside other tests a minute of computing takes several

PRINTED = {
    "bill": {"bill_error_usd", "bill_job_error_usd", "bill_object_kb"},
    "chaos": {
        *("chaos_bursts", "chaos_stuck", "chaos_aimed", "chaos_mismatches"),
        *("join_window_kills", "join_window_steps_lost", "join_window_stuck"),
    },
    "export": {"cp_mb_per_second", "export_mb_per_second", "export_vs_cp", "export_extra_mb"},
    "flood": {
        "flood_lag_p99_ms",
        "flood_lag_p50_ms",
        "flood_busy_p99_ms",
        "flood_cpu_percent",
    },
    "estimate": {
        "estimate_cpu_seconds_per_replay",
        "estimate_deadline_cpu_seconds_per_replay",
    },
    "formation": {"formation_100_seconds"},
    "kopf_front": {"front_reflector_us", "front_fed_us", "front_own_us"},
    "pods_per_second": {"pods_vs_job_controller_200x8", "pods_vs_job_controller_1x1000"},
    "limits": {"limit_overrun_usd"},
    "large_job": {
        "large_status_kb",
        "large_undecided",
        "large_cost_error_usd",
        "large_decide_2000_ms",
        "late_worlds",
    },
    "neighbours": {
        *(f"neighbours_{phase}_p99_seconds" for phase in ("alone", "created", "changed", "there")),
        "neighbours_rss_mb",
    },
    "preemption": {"fleet_wasted_ratio", "fleet_high_wait_ratio", "fleet_usd_cheapest"},
    "reaction": {"reaction_p50_ms", "reaction_p99_ms", "reaction_cpu_per_kill"},
    "restart": {"restart_seconds", "restart_rss_mb"},
    "lending": {"lending_seconds", "lending_stall_seconds", "lending_back_seconds"},
    "meter": {
        "meter_max_error_usd",
        "meter_final_error_usd",
        "dead_node_error_usd",
        "vanished_pod_error_usd",
        "budget_overrun_usd",
    },
    "soak": {"soak_rss_slope_mb_per_1000_jobs", "soak_leaks"},
    "scale": {
        *("scale_10000_reaction_p99_ms", "scale_10000_rss_mb", "scale_10000_idle_qps"),
        *("scale_2000_workers_status_kb", "scale_2000_workers_admission_create_ms"),
        "scale_report_tls_cpu_us",
    },
    "scaling": {
        "scaling_cost_vs_best_fixed_steady",
        "scaling_cost_vs_best_fixed_changing",
        "scaling_saved_vs_fixed_max_percent",
        "scaling_and_spot_saved_percent",
        "scaling_oscillations",
    },
    "data_changes": {"data_samples_wrong"},
    "data_formats": {"data_format_ratio", "data_tokens_per_second", "data_cache_hits"},
    "storage": {"store_call_ms", "store_save_ratio", "store_restore_ratio", "store_lost"},
    "tiers": {"tier_call_ms", "tier_restore_ratio", "tier_lost"},
    "ui": {"cli_p95_seconds", "cli_start_seconds", "ui_update_p95_seconds", "ui_bundle_kb"},
    "tuning": {"tune_regret_per_dollar_ratio", "tune_suggest_seconds", "tune_rss_mb"},
    "tuning_curves": {"tune_pruning_regret", "tune_asha_regret_ratio"},
    "tuning_search": {
        *("tune_trials_lost", "tune_same_best", "tune_cost_error_usd"),
        "tune_turnaround_seconds",
    },
    "writes": {"writes_per_worker", "idle_writes", "writes_per_removed_worker"},
}

MOST_CPU = {"reaction": ("reaction_cpu_ratio", 0.5), "restart": ("restart_cpu_ratio", 20)}
"""The CPU of the operator, beside that of a fixed piece of Python right before and after: on two
cores it was 0.34 to 0.37, and 13.8 to 14.9, three times with both benches at once. Where that piece
was timed once, it was up to 0.45 and 18.1."""


@pytest.mark.parametrize("name", PRINTED)
def test_bench_ends_well_and_prints_its_figures(name: str) -> None:
    lines = figures_of(name, "--quick", timeout_seconds=TIMEOUT_SECONDS)
    figures = {line["metric"]: line for line in lines}
    assert PRINTED[name] <= figures.keys()
    assert all(line["value"] >= 0 and line["unit"] for line in figures.values())
    if name in MOST_CPU:
        metric, most = MOST_CPU[name]
        assert figures[metric]["value"] <= most
    if name == "chaos":
        assert figures["join_window_steps_lost"]["value"] == 0
    if name == "data_changes":
        assert [line["value"] for line in lines] == [0] * len(lines)
    if name == "data_formats":
        assert figures["data_cache_hits"]["value"] == 100
    if name == "preemption":
        assert figures["fleet_wasted_ratio"]["value"] <= 0.7
    if name == "storage":
        assert (figures["store_lost"]["value"], figures["store_corrupt"]["value"]) == (0, 0)
    if name == "tiers":
        assert (figures["tier_lost"]["value"], figures["tier_corrupt"]["value"]) == (0, 0)
    if name == "tuning_search":
        assert (figures["tune_trials_lost"]["value"], figures["tune_same_best"]["value"]) == (0, 1)
        assert figures["tune_cost_error_usd"]["value"] <= 0.01
    if name == "writes":  # counted, so true whatever else the machine does
        assert figures["idle_writes"]["value"] == 0
        lives = figures["writes_per_worker"]
        assert lives["value"] <= lives["allowed"]
        removed = figures["writes_per_removed_worker"]
        assert removed["value"] <= removed["allowed"]


def test_a_training_of_shared_copies_is_disturbed_as_well() -> None:
    small = ("--shard=2", "--seeds=1", "--bursts=4")
    found = figures_of("chaos", *small, timeout_seconds=TIMEOUT_SECONDS)
    figures = {line["metric"]: line["value"] for line in found}
    assert figures["chaos_bursts"] > 0
    assert (figures["chaos_stuck"], figures["chaos_mismatches"]) == (0, 0)
