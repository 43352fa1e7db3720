"""MLflow: one run for a job, however often it is restarted."""

import os
from collections.abc import Mapping
from typing import Any

from spotrun_trainer.telemetry.trackers.tracker import Identity, Logged, numbers

_TAG = "spotrun.job_uid"
_MOST_AT_ONCE = 1000
"""The most that MLflow takes in a request."""


class MLflow:
    """A run that is found again by the job's UID; a repeated step keeps its first values."""

    def __init__(self, job: Identity) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 - takes seconds
        from mlflow.entities import Metric  # noqa: PLC0415

        self._metric = Metric
        self._client: Any = MlflowClient()
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or job.namespace or "Default"
        self._run_id = os.environ.get("MLFLOW_RUN_ID") or _run_of(self._client, experiment, job)
        self._last: dict[str, int] = {}  # the newest step by metric
        self._waiting: list[Any] = []

    def begin(self, step: int) -> None:
        """Find out which steps the run has."""
        del step
        self.flush()
        for name in self._client.get_run(self._run_id).data.metrics:
            history = self._client.get_metric_history(self._run_id, name)
            self._last[name] = max((one.step for one in history), default=-1)

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Keep the numbers of a step until there are enough for a request."""
        for name, value in numbers(values).items():
            if step > self._last.get(name, -1):
                self._last[name] = step
                self._waiting.append(self._metric(name, value, int(time * 1000), step))
        if len(self._waiting) >= _MOST_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        while self._waiting:
            self._client.log_batch(self._run_id, metrics=self._waiting[:_MOST_AT_ONCE])
            del self._waiting[:_MOST_AT_ONCE]

    def close(self) -> None:
        """Send what waits; the run stays open for the next process."""
        self.flush()


def _run_of(client: Any, experiment: str, job: Identity) -> str:  # noqa: ANN401 - has no types
    found = client.get_experiment_by_name(experiment)
    number = found.experiment_id if found is not None else client.create_experiment(experiment)
    if job.uid:
        runs = client.search_runs([number], f"tags.`{_TAG}` = '{job.uid}'", max_results=1)
        if runs:
            return str(runs[0].info.run_id)
    tags = {_TAG: job.uid} if job.uid else {}
    made = client.create_run(number, run_name=job.name or None, tags=tags)
    return str(made.info.run_id)
