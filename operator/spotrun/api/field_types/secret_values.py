"""Manifests without values that look like secrets, because reports are given to others."""

import re
from typing import Any

_SECRET = re.compile(
    r"(?i)secret|passw|credential|api_?key|token(_|$)|(^|_)(auth|key|pat|pwd)(_|$)"
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl stores the whole manifest, with such values."""
HIDDEN = "(left out of this report)"
"""The text that replaces values that look like secrets."""


def without_secrets(part: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """Return a part of a manifest without the values of variables that are named like secrets."""
    if isinstance(part, list):
        return [without_secrets(one) for one in part]
    if not isinstance(part, dict):
        return part
    if "value" in part and _SECRET.search(str(part.get("name", ""))):
        return {**part, "value": HIDDEN}
    return {name: without_secrets(one) for name, one in part.items()}
