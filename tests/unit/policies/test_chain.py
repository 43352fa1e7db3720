from collections import Counter
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages

import spotrun.policies
from spotrun.policies.chain import POLICIES
from spotrun.policies.policy import Policy
from tests.support.jobs.builders import a_job
from tests.support.jobs.stored_state import stored

PREFIX = f"{spotrun.policies.__name__}."


def test_a_quiet_job_stays_quiet_and_its_status_is_valid() -> None:
    job = a_job(3, min=2).training(0, 1, 2)
    status = job.decide().status
    again = replace(job, status=stored(status)).decide()
    assert (again.status, again.actions) == (status, ())


def test_every_policy_is_in_the_chain_once() -> None:
    names = {
        id(one): f"{module}.{name}"
        for module in (found.name for found in walk_packages(spotrun.policies.__path__, PREFIX))
        for name, one in vars(import_module(module)).items()
        if isinstance(one, Policy)
    }
    assert len(names) > 30
    counts = Counter(map(id, POLICIES))  # equal ones are told apart
    assert {name: counts[key] for key, name in names.items() if counts[key] != 1} == {}
