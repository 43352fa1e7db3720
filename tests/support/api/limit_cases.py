"""SpendLimits, good and bad, each bad one with what is said about it."""

from typing import Any

from tests.support.api.manifest_cases import Case, Manifest, changed


def spend_limit(changes: dict[str, Any] | None = None) -> Manifest:
    """Return the smallest limit, with changes."""
    smallest = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "SpendLimit",
        "metadata": {"name": "team"},
        "spec": {"limitUsd": "100"},
    }
    return changed(smallest, changes or {})


GOOD_LIMITS: dict[str, Manifest] = {
    "the smallest limit": spend_limit(),
    "a limit with everything": spend_limit(
        {
            "period": "Week",
            "selector": {"matchLabels": {"team": "vision", "project": "a"}},
            "onExceeded": "Suspend",
            "warnAtPercent": 90,
        }
    ),
}

_LABELS = "selector.matchLabels takes one or more of the labels by which costs are grouped"

BAD_LIMITS = (
    Case(
        "a limit for other labels",
        _LABELS,
        {"selector": {"matchLabels": {"app": "x"}}},
        spend_limit(),
    ),
    Case(
        "a long name of a limit",
        "metadata.name must be at most 63 characters, because messages of jobs contain it",
        {"/metadata.name": "a" * 64},
        spend_limit(),
    ),
    Case("a limit for no label", _LABELS, {"selector": {"matchLabels": {}}}, spend_limit()),
)
