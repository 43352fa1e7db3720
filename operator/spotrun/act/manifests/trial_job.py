"""The TrainingJob of a trial. Pure: a function of the search and of the trial's values."""

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.api import names
from spotrun.api.spec.limits import OnExceeded
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.steps import CreateTrial
from spotrun.search import stages_with_params, with_params
from spotrun.state.names import owned_name


def trial_job(search: TuningSnapshot, trial: CreateTrial) -> Manifest:
    """Return the manifest; raises ValueError for a placeholder that names no parameter."""
    template = search.spec.template
    spec = template.spec.manifest()
    workers = dict(spec["workers"])
    workers["template"] = with_params(workers["template"], trial.values, variable=names.ENV_PARAMS)
    if trial.until_step is not None:
        until = {"name": names.ENV_UNTIL_STEP, "value": str(trial.until_step)}
        workers["template"] = _with_variable(workers["template"], until)
    spec["workers"] = workers
    if "stages" in spec:
        spec["stages"] = stages_with_params(spec["stages"], trial.values)
    if trial.begin_from is not None:
        spec["checkpoint"] = {**spec["checkpoint"], "beginFrom": trial.begin_from.manifest()}
    if trial.cap_usd is not None:
        # A job that is held back waits for a larger budget; a trial that spent its share must end.
        limits = {"maxCostUsd": trial.cap_usd.amount, "onExceeded": OnExceeded.FAIL.value}
        spec["budget"] = {**spec.get("budget", {}), **limits}
    name = search.job_name(trial.number)
    given = template.metadata.manifest() if template.metadata is not None else {}
    labels = {
        **given.get("labels", {}),
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_TUNING_JOB: search.name,
        names.LABEL_TRIAL: str(trial.number),
    }
    return plain(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAINING_JOB,
            "metadata": {
                "name": name,
                "namespace": search.namespace,
                "labels": labels,
                "annotations": {
                    **given.get("annotations", {}),
                    # A TuningJob that is created again must not continue the old one's trials.
                    names.ANNOTATION_CHECKPOINT_FOLDER: owned_name(name, search.uid),
                },
                "ownerReferences": [
                    {
                        "apiVersion": names.API_VERSION,
                        "kind": names.TUNING_JOB,
                        "name": search.name,
                        "uid": search.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": spec,
        }
    )


def _with_variable(pod_template: Manifest, variable: Manifest) -> Manifest:
    spec = pod_template["spec"]
    containers = [{**one, "env": [*one["env"], variable]} for one in spec["containers"]]
    return {**pod_template, "spec": {**spec, "containers": containers}}
