"""Each bench of the operator runs to its end in a small size and prints what it is there for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 240

PRINTED = {
    "chaos": {"chaos_bursts", "chaos_stuck", "chaos_aimed", "chaos_mismatches"},
    "formation": {"formation_100_seconds"},
    "pods_per_second": {"pods_vs_job_controller_200x8", "pods_vs_job_controller_1x1000"},
    "reaction": {"reaction_p50_ms", "reaction_p99_ms", "reaction_cpu_per_kill"},
    "restart": {"restart_seconds", "restart_rss_mb"},
    "meter": {"meter_max_error_usd", "meter_final_error_usd", "budget_overrun_usd"},
    "scaling": {
        "scaling_cost_vs_best_fixed_steady",
        "scaling_cost_vs_best_fixed_changing",
        "scaling_saved_vs_fixed_max_percent",
        "scaling_and_spot_saved_percent",
        "scaling_oscillations",
    },
    "writes": {"writes_per_worker", "idle_writes", "writes_per_removed_worker"},
}


@pytest.mark.parametrize("name", PRINTED)
def test_bench_ends_well_and_prints_its_figures(name: str) -> None:
    figures = _run(name)
    assert PRINTED[name] <= figures.keys()
    assert all(line["value"] >= 0 and line["unit"] for line in figures.values())
    if name == "writes":  # counted, so true whatever else the machine does
        assert figures["idle_writes"]["value"] == 0
        lives = figures["writes_per_worker"]
        assert lives["value"] <= lives["allowed"]
        removed = figures["writes_per_removed_worker"]
        assert removed["value"] <= removed["allowed"]


def _run(name: str) -> dict[str, dict[str, Any]]:
    bench = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert bench.returncode == 0, bench.stderr[-4000:]
    lines = [json.loads(line) for line in bench.stdout.splitlines()]
    return {line["metric"]: line for line in lines}
