"""Parameters in a TrainingJob's template: `$(params.NAME)`, and the variable for `params()`."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from spotrun.search.space import Value, Values

# As in Kubernetes' own $(NAME): $$ stands for a dollar sign, and the text after it is literal.
_PLACEHOLDER = re.compile(r"\$\$|\$\(params\.([^)]*)\)")


def with_params(
    pod_template: Mapping[str, Any], values: Values, *, variable: str
) -> dict[str, Any]:
    """Return a pod template whose containers have the values of a trial.

    `$(params.NAME)` is replaced in command, args and values of env; each container gets the
    variable from which `params()` reads them. Raises ValueError for a name that is not a parameter
    of the trial.
    """
    spec = pod_template.get("spec", {})
    changed = {
        key: [_with_values(container, values, variable) for container in spec[key]]
        for key in ("initContainers", "containers")
        if key in spec
    }
    return {**pod_template, "spec": {**spec, **changed}}


def stages_with_params(stages: Sequence[Mapping[str, Any]], values: Values) -> list[dict[str, Any]]:
    """Return the stages of a training with the values of a trial in their args and params.

    No kubelet reads them, so $$ becomes a dollar sign here. Raises ValueError like `with_params`.
    """

    def filled(text: str) -> str:
        return replace_params(text, values).replace("$$", "$")

    changed: list[dict[str, Any]] = []
    for stage in stages:
        args = {"args": [filled(text) for text in stage["args"]]} if stage.get("args") else {}
        given = stage.get("params") or {}
        params = {"params": {name: filled(text) for name, text in given.items()}} if given else {}
        changed.append({**stage, **args, **params})
    return changed


def replace_params(text: str, values: Values) -> str:
    """Replace each `$(params.NAME)` in a text; raises ValueError for an unknown name."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        if found[1] not in values:
            raise ValueError(
                f"$(params.{found[1]}) names no parameter of this trial: it has "
                f"{', '.join(sorted(values)) or 'none'}; a parameter with a condition is not in "
                "every trial, so read it with spotrun_trainer.params()"
            )
        return _escaped(text_of(values[found[1]]))

    return _PLACEHOLDER.sub(value, text)


def placeholders(text: str) -> frozenset[str]:
    """Return the names of the parameters that a text contains as placeholders."""
    return frozenset(found for found in _PLACEHOLDER.findall(text) if found)


def text_of(value: Value) -> str:
    """Return a value as an argument; a number is read back as the same number."""
    return value if isinstance(value, str) else json.dumps(value)


def _with_values(container: Mapping[str, Any], values: Values, variable: str) -> dict[str, Any]:
    lists = {
        key: [_replaced(text, values) for text in container[key]]
        for key in ("command", "args")
        if container.get(key)
    }
    env = [
        {**one, "value": _replaced(one["value"], values)} if one.get("value") else one
        for one in container.get("env") or ()
        if isinstance(one, Mapping) and one.get("name") != variable
    ]
    told = json.dumps(dict(values), separators=(",", ":"))
    return {**container, **lists, "env": [*env, {"name": variable, "value": _escaped(told)}]}


def _replaced(given: object, values: Values) -> object:
    """Replace in texts; a number without quotes is kept, and the API server reports it."""
    return replace_params(given, values) if isinstance(given, str) else given


def _escaped(text: str) -> str:
    """Escape a value, so that the kubelet does not expand it: $$ becomes a dollar sign there."""
    return text.replace("$", "$$")
