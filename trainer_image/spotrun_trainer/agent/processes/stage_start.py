"""The start of processes in a stage: with its arguments and parameters beside the template's."""

import functools
import json
import os
from collections.abc import MutableMapping
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from spotrun.wire import Stage
from spotrun_trainer.process import params, stage


class StageStart:
    """The values of the stage in which processes are started next."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Change this environment, which processes inherit."""
        self._environment = environment
        self._params = environment.get(params.ENV)  # of the template, or of a search
        self.args: tuple[str, ...] = ()

    def begin(self, entered: Stage | None) -> None:
        """Let the next processes start in a stage; None: the training has no stages."""
        self.args = entered.args if entered is not None else ()
        if entered is None:
            self._environment.pop(stage.ENV, None)
            self._set_params(self._params)
            return
        content = {"name": entered.name, "index": entered.index, "untilStep": entered.until_step}
        self._environment[stage.ENV] = json.dumps(content)
        if entered.params:
            self._set_params(json.dumps({**self._given(), **entered.params}))
        else:
            self._set_params(self._params)

    def _given(self) -> dict[str, Any]:
        try:
            content = json.loads(self._params or "{}")
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {}

    def _set_params(self, text: str | None) -> None:
        if text is None:
            self._environment.pop(params.ENV, None)
        else:
            self._environment[params.ENV] = text

    def watch(self) -> None:
        """Let torchrun start processes with the stage's arguments, from now on."""
        original = LocalElasticAgent._start_workers  # noqa: SLF001 - there is no other way
        of_template: tuple[Any, ...] | None = None

        @functools.wraps(original)
        def start(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
            nonlocal of_template
            if of_template is None:
                of_template = tuple(group.spec.args)
            group.spec.args = (*of_template, *self.args)
            return original(agent, group)

        LocalElasticAgent._start_workers = start  # type: ignore[method-assign]  # noqa: SLF001
