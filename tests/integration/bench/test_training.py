"""Benches of trainings in pods run to their end in a small size."""

from tests.support.processes.benches import figures_of

TIMEOUT_SECONDS = 600.0  # hangs


def test_a_training_that_is_moved_about_comes_out_as_one_that_is_not() -> None:
    small = ("--quick", "--only=deterministic")
    figures = figures_of("determinism", *small, timeout_seconds=TIMEOUT_SECONDS)
    # Counted, so true whatever else the machine does.
    found = [(line["metric"], line["value"]) for line in figures]
    assert found == [("samples_wrong", 0), ("hash_equal", 1)]


def test_a_loss_costs_no_committed_step_and_its_phases_are_told_apart() -> None:
    small = ("--quick", "--only=node_lost_stall", "--parameters=1")
    stall, over, steps_lost = figures_of("recovery", *small, timeout_seconds=TIMEOUT_SECONDS)
    assert stall["metric"] == "node_lost_stall_seconds"
    assert over["metric"] == "node_lost_stall_1m_over_microbatch_seconds"
    assert {"broken", "group"} <= stall["phases"].keys()
    assert (steps_lost["metric"], steps_lost["value"]) == ("steps_lost", 0)


def test_bringing_the_package_adds_little_to_a_start() -> None:
    (figure,) = figures_of("scripts_inject", "--quick", timeout_seconds=TIMEOUT_SECONDS)
    assert (figure["metric"], figure["unit"]) == ("inject_seconds", "s")


def test_a_change_that_was_planned_costs_a_script_no_failure() -> None:
    found = figures_of("scripts", "--quick", timeout_seconds=TIMEOUT_SECONDS)
    figures = [(line["metric"], line.get("change")) for line in found]
    changes = [("planned_change_seconds", change) for change in ("up", "down", "suspend")]
    assert figures == [("hook_overhead_percent", None), *changes, ("planned_change_failures", None)]
    assert found[-1]["value"] == 0


def test_a_notice_costs_a_framework_with_its_adapter_no_step() -> None:
    small = ("--quick", "--only=notice")
    (found,) = figures_of("scripts", *small, timeout_seconds=TIMEOUT_SECONDS)
    assert (found["metric"], found["script"]) == ("script_steps_lost", "transformers")
    assert (found["value"], found["failures"]) == (0, 0)


def test_the_first_cause_of_failing_scripts_is_named() -> None:
    (found,) = figures_of("scripts_failures", "--quick", timeout_seconds=TIMEOUT_SECONDS)
    assert found["metric"] == "failures_named"
    assert (found["value"], found["missing"]) == (found["of"], {})


def test_a_power_cut_costs_a_loop_that_keeps_its_state_no_step() -> None:
    small = ("--quick", "--only=cuts")
    found = figures_of("scripts_keep", *small, timeout_seconds=TIMEOUT_SECONDS)
    steps_lost, restart, whole = found
    assert (steps_lost["metric"], steps_lost["value"]) == ("script_steps_lost", 0)
    assert restart["metric"] == "script_restart_seconds"
    assert whole["metric"] == "script_whole_seconds"
    assert whole["value"] >= restart["value"]
