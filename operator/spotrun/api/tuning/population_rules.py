"""The rules that a search by a population sets for the rest of its spec."""

from typing import Any

from spotrun.api.model import Rule

_PLACE = "self.template.spec.checkpoint"

POPULATION_RULES = (
    Rule(
        cel="!has(self.search.population) || self.trials.max % self.search.population.size == 0",
        message="trials.max must be a multiple of search.population.size: each member has a trial "
        "in each round",
        holds=lambda s: s.search.population is None or s.trials.max % s.search.population.size == 0,
    ),
    Rule(
        cel="!has(self.search.population) || !has(self.pruning)",
        message="a population replaces its worst members by itself: leave pruning out",
        holds=lambda s: s.search.population is None or s.pruning is None,
    ),
    Rule(
        cel="!has(self.search.population) || !has(self.template.spec.stages)",
        message="the rounds of a population are stages of their own: leave stages of the template "
        "out",
        holds=lambda s: s.search.population is None or s.template.spec.stages is None,
    ),
    Rule(
        cel=f"!has(self.search.population) || (has({_PLACE}) && !has({_PLACE}.beginFrom) && "
        f"(has({_PLACE}.uri) || !has({_PLACE}.volume.emptyDir)))",
        message="members of a population begin from each other's checkpoints: give template "
        "checkpoint.volume with persistentVolumeClaim, nfs or csi, or checkpoint.uri, without "
        "beginFrom",
        holds=lambda s: s.search.population is None or _has_place(s.template.spec.checkpoint),
    ),
)
"""The rules of a TuningJob's spec with `search.population`."""


def _has_place(checkpoint: Any) -> bool:  # noqa: ANN401 - of a TrainingJob, or None
    return checkpoint is not None and checkpoint.outlives_pods and checkpoint.begin_from is None
