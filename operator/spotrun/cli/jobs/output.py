"""Output for programs: JSON, YAML, or names that kubectl accepts."""

import json
from collections.abc import Sequence


def written(data: object, output: str, names: Sequence[str]) -> str:
    """Return data in the form that was asked for."""
    if output == "json":
        return json.dumps(data, indent=2)
    if output == "name":
        return "\n".join(f"trainingjob.spotrun.dev/{name}" for name in names)
    import yaml  # noqa: PLC0415 - half of the commands need none

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text.rstrip()
