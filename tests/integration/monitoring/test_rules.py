"""Alerts on Prometheus' own terms: they load, fire when they should, and are silent otherwise."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.monitoring.helpers import ALERTS, DASHBOARDS, expressions

CASES = sorted(Path(__file__).with_name("rules").glob("*.yaml"))


def run(*command: str | Path) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_takes_the_alerts(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *ALERTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_an_alert_fires_when_it_should_and_only_then(promtool: Path, case: Path) -> None:
    run(promtool, "test", "rules", case)


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    asked: dict[str, set[bool]] = {}
    for case in CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            for ask in test["alert_rule_test"]:
                asked.setdefault(ask["alertname"], set()).add(bool(ask["exp_alerts"]))

    assert asked == {alert.stem: {True, False} for alert in ALERTS}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.stem)
def test_prometheus_understands_every_panel(
    promtool: Path, dashboard: Path, tmp_path: Path
) -> None:
    found = expressions(dashboard, namespace="ml", name="llama").values()
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(found)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    run(promtool, "check", "rules", file)
