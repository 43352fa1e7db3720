"""Clients of object stores; credentials are found where the clouds put them.

That is: the environment (AWS_..., GOOGLE_..., AZURE_...), a file that it names, or the identity of
the pod or of its node (IRSA and EKS Pod Identity, GKE's and Azure's workload identity).
"""

import os
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from spotrun_trainer.store.addresses import Address, endpoint_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

NICER = 10
"""Threads that send have a nice value higher by this, as the thread that saves: training goes
first."""

_UNSIGNED = "AWS_UNSIGNED_PAYLOAD"
"""The content need not be hashed for the signature where TLS protects it: that takes as long as the
hash in the manifest, beside training. A user whose bucket asks for it sets this to false."""

BESIDE: "RetryConfig" = {
    "max_retries": 20,
    "retry_timeout": timedelta(seconds=90),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=10),
        "base": 2,
    },
}
"""Only the next checkpoint waits for a save, so it retries long; the pauses grow, and are
random."""
QUICKLY: "RetryConfig" = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=1),
        "base": 2,
    },
}

_prepared = threading.Lock()
_is_prepared = False


def connect(address: Address, retries: "RetryConfig") -> ObjectStore:
    """Return a client; no request is made."""
    _start_transfer_threads()
    options: dict[str, Any] = {"client_options": _client(address), "retry_config": retries}
    if address.prefix:
        options["prefix"] = address.prefix
    if address.scheme == "s3":
        if not _is_plain("s3") and _UNSIGNED not in os.environ:
            options["unsigned_payload"] = True
        return S3Store(address.bucket, **options)
    if address.scheme == "gs":
        return GCSStore(address.bucket, **options)
    return AzureStore(address.bucket, account_name=address.account, **options)


def _is_plain(scheme: str) -> bool:
    """Whether what is sent to a store is not protected by TLS."""
    return endpoint_of(scheme, os.environ).startswith("http://")


def _client(address: Address) -> "ClientConfig":
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=20),  # of silence
        "timeout": timedelta(seconds=120),  # a part at 140 kB/s
    }
    if _is_plain(address.scheme):
        options["allow_http"] = True  # an address with http:// says so, as for MinIO in a cluster
    return options


def _start_transfer_threads() -> None:
    """Let obstore start its threads with a low priority, which they inherit from their starter."""
    global _is_prepared  # noqa: PLW0603 - obstore has one runtime for the process
    with _prepared:
        if not _is_prepared and sys.platform == "linux":
            thread = threading.Thread(target=_start_nicely, name="store-start")
            thread.start()
            thread.join()
        _is_prepared = True


def _start_nicely() -> None:
    thread = threading.get_native_id()
    niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICER
    os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))
    obstore.put(MemoryStore(), "begun", b"")
