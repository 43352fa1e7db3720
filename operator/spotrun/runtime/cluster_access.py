"""The operator's cluster and namespace, from the options or from the environment."""

import os
from pathlib import Path

from spotrun.kube.rest.access import Load, in_cluster
from spotrun.kube.rest.kubeconfig import choose, files_named
from spotrun.runtime.options import OWN_NAMESPACE, SERVICE_ACCOUNT, Options


def is_in_pod(options: Options) -> bool:
    """Whether to use the pod's own service account."""
    given = options.kubeconfig or options.context
    return not given and "KUBERNETES_SERVICE_HOST" in os.environ


def access(options: Options) -> Load:
    """Return how to reach the API server; raises ValueError or AccessError that say what to do."""
    if is_in_pod(options):
        return in_cluster()
    given = str(options.kubeconfig) if options.kubeconfig else None
    files = files_named(given, os.environ, Path.home())
    if not files:
        looked = given or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise ValueError(
            f"there is no kubeconfig at {looked}: name one with --kubeconfig or KUBECONFIG; only "
            "in a pod, where KUBERNETES_SERVICE_HOST is set, none is needed"
        )
    return choose(files, options.context).load


def own_namespace(options: Options) -> str:
    """Return the namespace of the operator's Lease and its Secret."""
    if options.namespace is not None:
        return options.namespace
    if is_in_pod(options):
        return (SERVICE_ACCOUNT / "namespace").read_text().strip()
    return OWN_NAMESPACE
