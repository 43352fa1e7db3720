"""Searches, good and bad, each bad one with what is said about it."""

from typing import Any

from tests.support.api.manifest_cases import LEFT_OUT, Case, Manifest, changed, job

UNIFORM = {"uniform": {"min": "0", "max": "1"}}
CHOICES = {"categorical": {"choices": ["adam", "sgd"]}}


def search(changes: dict[str, Any] | None = None) -> Manifest:
    """Return the smallest search, with changes."""
    smallest = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TuningJob",
        "metadata": {"name": "search"},
        "spec": {
            "objective": {"metric": "loss"},
            "search": {"random": {}},
            "parameters": [{"name": "lr", **UNIFORM}],
            "trials": {"max": 4},
            "template": {"spec": job()["spec"]},
        },
    }
    return changed(smallest, changes or {})


FULL_SEARCH = search(
    {
        "suspend": True,
        "objective": {
            "metric": "accuracy",
            "direction": "Maximize",
            "goal": "-1.5e-3",
            "reportWithin": "90s",
        },
        "search": {
            "bayesian": {"seed": 7, "sampler": "TPE", "startupTrials": 5, "perDollar": True}
        },
        "parameters": [
            {"name": "optimizer", **CHOICES},
            {"name": "lr", "logUniform": {"min": "1e-5", "max": "0.1"}},
            {"name": "layers", "int": {"min": 2, "max": 8, "step": 2}},
            {
                "name": "momentum",
                "uniform": {"min": "0", "max": "0.99"},
                "when": [{"parameter": "optimizer", "values": ["sgd"]}],
            },
        ],
        "pruning": {"asha": {"graceSteps": 100, "maxSteps": 900, "reduction": 3}},
        "trials": {
            "max": 20,
            "parallel": 4,
            "maxFailed": 0,
            "expectedDuration": "20m",
            "keep": "Best",
        },
        "stopWhen": {"noBetterTrials": 8, "minImprovement": "1e-3"},
        "budget": {"maxCostUsd": "12.5", "maxDuration": "6h", "onExceeded": "StopAll"},
        "template.metadata": {"labels": {"team": "vision"}, "annotations": {"a/b": "c d"}},
    }
)

POPULATION = search(
    {
        "search": {"population": {"size": 2, "stepsPerRound": 100, "seed": 7}},
        "template.spec.checkpoint": {"uri": "s3://bucket"},
    }
)

GOOD_SEARCHES: dict[str, Manifest] = {
    "the smallest search": search(),
    "a search with everything": FULL_SEARCH,
    "a grid": search({"search": {"grid": {}}, "parameters": [{"name": "lr", **CHOICES}]}),
    "a search by a sequence": search({"search": {"sobol": {"seed": 3}}}),
    "a population": POPULATION,
    "a search with the median": search({"pruning": {"median": {"warmupSteps": 10}}}),
}


def _case(name: str, message: str, changes: dict[str, Any]) -> Case:
    return Case(name, message, changes, search())


def _of(**range_: Any) -> dict[str, Any]:
    return {"parameters": [{"name": "lr", **range_}]}


BAD_SEARCHES = (
    _case(
        "trials that another controller runs",
        "template.spec.managedBy: trials are run by this operator",
        {"template.spec.managedBy": "kueue.x-k8s.io/multikueue"},
    ),
    _case("no way to search", "search needs exactly one of grid, random", {"search": {}}),
    _case(
        "two ways to search",
        "search needs exactly one of grid, random",
        {"search": {"random": {}, "sobol": {}}},
    ),
    _case(
        "a grid over a range",
        "a grid over uniform or logUniform would have no end: list the values as categorical",
        {"search": {"grid": {}}},
    ),
    _case(
        "a parameter without a range",
        "a parameter needs exactly one of uniform, logUniform, int and categorical",
        _of(),
    ),
    _case(
        "a parameter with two ranges",
        "a parameter needs exactly one of uniform, logUniform, int and categorical",
        _of(**UNIFORM, **CHOICES),
    ),
    _case(
        "an empty range",
        "the range is empty: give a min below the max",
        _of(uniform={"min": "1", "max": "1"}),
    ),
    _case(
        "an empty range of whole numbers",
        "the range is empty: give a min below the max",
        _of(int={"min": 2, "max": 1}),
    ),
    _case(
        "a logarithm of 0",
        "logUniform needs a min above 0 and below the max",
        _of(logUniform={"min": "0", "max": "1"}),
    ),
    _case(
        "a choice twice",
        "choices must name each value once",
        _of(categorical={"choices": ["a", "a"]}),
    ),
    _case(
        "a bound that is no number",
        'must be a number in quotes, like "0.1" or "1e-4"',
        _of(uniform={"min": "low", "max": "1"}),
    ),
    _case(
        "a parameter that no script can name",
        "must be letters, digits and _, beginning with a letter, at most 63",
        {"parameters": [{"name": "learning-rate", **UNIFORM}]},
    ),
    _case(
        "a condition on nobody",
        "when.parameter must name another parameter, which comes before this one",
        _of(**UNIFORM, when=[{"parameter": "optimizer", "values": ["sgd"]}]),
    ),
    _case(
        "dollars for another model",
        "perDollar ranks what TPE proposes: choose the sampler TPE, or leave perDollar out",
        {"search": {"bayesian": {"sampler": "GP", "perDollar": True}}},
    ),
    Case(
        "a round that is not full",
        "trials.max must be a multiple of search.population.size",
        {"trials": {"max": 5}},
        POPULATION,
    ),
    Case(
        "a population that is pruned",
        "a population replaces its worst members by itself: leave pruning out",
        {"pruning": {"median": {}}},
        POPULATION,
    ),
    Case(
        "a population in stages",
        "the rounds of a population are stages of their own",
        {"template.spec.stages": [{"name": "a", "untilStep": 5}]},
        POPULATION,
    ),
    Case(
        "a population without checkpoints",
        "members of a population begin from each other's checkpoints",
        {"template.spec.checkpoint": LEFT_OUT},
        POPULATION,
    ),
    _case("no pruning of any kind", "pruning needs exactly one of median, asha", {"pruning": {}}),
    _case(
        "a grace that is all",
        "graceSteps must be below maxSteps, the steps of a whole training",
        {"pruning": {"asha": {"graceSteps": 9, "maxSteps": 9}}},
    ),
    _case(
        "more at once than in all",
        "trials.parallel must not be above trials.max",
        {"trials": {"max": 1, "parallel": 2}},
    ),
    _case(
        "a patience that is never used up",
        "stopWhen.noBetterTrials must be below trials.max: otherwise it stops nothing",
        {"stopWhen": {"noBetterTrials": 4}},
    ),
    _case(
        "an improvement below zero",
        "stopWhen.minImprovement must not be negative",
        {"stopWhen": {"noBetterTrials": 2, "minImprovement": "-0.1"}},
    ),
    _case(
        "a budget without a limit of a search",
        "budget must limit something: give maxCostUsd, maxDuration or both",
        {"budget": {"onExceeded": "StopAll"}},
    ),
    _case(
        "a broken template of trials",
        "min must not be above max: raise max",
        {"template.spec.workers.min": 2},
    ),
    _case("a search for nothing", "spec.objective: Required value", {"objective": LEFT_OUT}),
    Case(
        "a long name of a search",
        "metadata.name must be at most 45 characters and without dots",
        {"/metadata.name": "a" * 46},
        search(),
    ),
)
