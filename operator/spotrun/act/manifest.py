"""Manifests as plain JSON."""

import json
from typing import Any

Manifest = dict[str, Any]


def plain(manifest: Manifest) -> Manifest:
    """A copy in which names and enums, strings that know more, are strings that encoders know."""
    # Twice through C is much quicker than a walk in Python, and a gang has hundreds of pods.
    copied: Manifest = json.loads(json.dumps(manifest))
    return copied
