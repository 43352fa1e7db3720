"""The `$(VAR)` references that Kubernetes resolves in command, args and environment values."""

import re
from collections.abc import Mapping

# The third alternative keeps `$x` and an unclosed `$(` as they are, and consumes both characters,
# as Kubernetes does: it decides how `$` characters in a row pair up.
_OPERATOR = re.compile(r"\$(?:(?P<escape>\$)|\((?P<name>[^)]*)\)|.)", re.DOTALL)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Resolve `$(VAR)`; `$$` is a literal `$`, and unknown names stay as written."""

    def resolved(match: re.Match[str]) -> str:
        if match["escape"]:
            return "$"
        if match["name"] is not None:
            return variables.get(match["name"], match[0])
        return match[0]

    return _OPERATOR.sub(resolved, text)
