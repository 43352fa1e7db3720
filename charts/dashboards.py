"""The Grafana dashboards of the chart, as files."""

import json

from charts.fleet_dashboard import FLEET
from charts.job_dashboard import JOB

_DASHBOARDS = {"fleet": FLEET, "job": JOB}


def rendered() -> dict[str, str]:
    """Each file of a dashboard, by its path from the root of the repository."""
    return {
        f"charts/spotrun/dashboards/{name}.json": json.dumps(dashboard.json(), indent=2) + "\n"
        for name, dashboard in _DASHBOARDS.items()
    }
