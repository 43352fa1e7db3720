import json
from typing import Any

import pytest

from spotrun.observe.template import gpu_limits, processes
from tests.decide_builders import a_spec


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
    spec = a_spec()
    template = {"spec": {"containers": [container]}}
    changed = spec.manifest() | {"workers": spec.workers.manifest() | {"template": template}}
    read = type(spec).model_validate_json(json.dumps(changed))
    assert sum(gpu_limits(read.workers.template).values()) == gpus
    assert processes(read) == max(gpus, 1)
    more = read.workers.model_copy(update={"processes": 7})
    assert processes(read.model_copy(update={"workers": more})) == 7
