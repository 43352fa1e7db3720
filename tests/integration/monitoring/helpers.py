"""The alerts, and what dashboards ask."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ALERTS = sorted((ROOT / "charts/spotrun/alerts").glob("*.yaml"))
DASHBOARDS = sorted((ROOT / "charts/spotrun/dashboards").glob("*.json"))


def expressions(dashboard: Path, **chosen: str) -> dict[str, str]:
    """The expressions of a dashboard by panel and legend, with what Grafana puts in."""
    chosen = {"__range": "1h", "__rate_interval": "1m", **chosen}
    found = {}
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel.get("targets", []):
            expr = re.sub(r"\$(\w+)", lambda word: chosen[word[1]], target["expr"])
            found[f"{panel['title']}: {target['legendFormat']}"] = expr
    return found
