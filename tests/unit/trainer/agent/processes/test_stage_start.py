import json

from spotrun.wire import Stage
from spotrun_trainer.agent.processes.stage_start import StageStart
from spotrun_trainer.process.params import ENV as PARAMS


def test_processes_have_the_values_of_their_stage_and_of_no_other() -> None:
    environment = {PARAMS: '{"lr": 0.1, "width": 4}'}
    start = StageStart(environment)
    start.begin(Stage("a", 0, is_last=False, until_step=9, args=("-x",), params={"lr": 0.5}))
    assert start.args == ("-x",)
    assert json.loads(environment["SPOTRUN_STAGE"]) == {"name": "a", "index": 0, "untilStep": 9}
    assert json.loads(environment[PARAMS]) == {"lr": 0.5, "width": 4}
    start.begin(Stage("b", 1))
    assert not start.args
    assert json.loads(environment["SPOTRUN_STAGE"])["name"] == "b"
    assert json.loads(environment[PARAMS]) == {"lr": 0.1, "width": 4}
    start.begin(None)
    assert environment == {PARAMS: '{"lr": 0.1, "width": 4}'}


def test_a_stage_without_params_leaves_none_behind() -> None:
    environment: dict[str, str] = {}
    start = StageStart(environment)
    start.begin(Stage("a", params={"lr": 0.5}))
    start.begin(Stage("b", 1))
    assert list(environment) == ["SPOTRUN_STAGE"]
