import json
from dataclasses import replace
from typing import Any

import pytest

from spotrun.observe.template_defaults import gpu_limits, processes
from tests.support.jobs.builders import a_job


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({}, 0),
        ({"cpu": "4"}, 0),
        ({"nvidia.com/gpu": "4"}, 4),
        ({"nvidia.com/gpu": 2, "memory": "1Gi"}, 2),
        ({"amd.com/gpu": 1}, 1),
        ({"nvidia.com/mig-1g.5gb": 3}, 3),
        ({"nvidia.com/gpu": "many"}, 0),
        (None, 0),
    ],
)
def test_one_process_for_each_gpu_and_at_least_one(limits: Any, gpus: int) -> None:
    container = {"name": "a", "image": "b", "resources": {"limits": limits}}
    spec = a_job(1).spec
    template = {"spec": {"containers": [container]}}
    changed = spec.manifest() | {"workers": spec.workers.manifest() | {"template": template}}
    read = type(spec).model_validate_json(json.dumps(changed))
    assert sum(gpu_limits(read.workers.template).values()) == gpus
    assert processes(replace(a_job(1).snapshot(), spec=read)) == max(gpus, 1)
    more = read.workers.model_copy(update={"processes": 7})
    said = read.model_copy(update={"workers": more})
    assert processes(replace(a_job(1).snapshot(), spec=said)) == 7


def test_one_process_for_each_device_that_is_claimed() -> None:
    claiming = replace(a_job(1).snapshot(), claimed=4)
    assert (processes(claiming), claiming.processes) == (4, 4)
