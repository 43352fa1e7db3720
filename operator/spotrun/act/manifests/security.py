"""Security contexts of a worker: things its containers may not do. Pure."""

from spotrun.act.manifests.plain_json import Manifest

_STRICTER_PROFILES = frozenset({"RuntimeDefault", "Localhost"})


def pod_security(given: Manifest | None, *, restricted: bool) -> Manifest:
    """Return the pod's security context: the user's, with a system call filter."""
    context = _filtered(dict(given or {}), default=True)
    if restricted:
        # An explicit false is kept: the refusal then says which line is the problem.
        context.setdefault("runAsNonRoot", True)
    return context


def container_security(given: Manifest | None, *, restricted: bool) -> Manifest:
    """Return a container's security context: the user's, without privilege escalation."""
    context = _filtered({**(given or {}), "allowPrivilegeEscalation": False}, default=False)
    if restricted:
        context["capabilities"] = {**(context.get("capabilities") or {}), "drop": ["ALL"]}
    return context


def _filtered(context: Manifest, *, default: bool) -> Manifest:
    """Replace Unconfined by RuntimeDefault; a container without a profile has its pod's."""
    profile = context.get("seccompProfile")
    if profile is None and not default:
        return context
    if (profile or {}).get("type") not in _STRICTER_PROFILES:
        context["seccompProfile"] = {"type": "RuntimeDefault"}
    return context
