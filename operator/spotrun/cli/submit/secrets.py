"""Files that look like keys: a ConfigMap is no place for them, so they are sent only on purpose."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePath

_NAMES = (
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*_rsa", "*_ed25519"),
    *("*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.tfstate"),
    *(".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "credentials", "credentials.json"),
    *("*service-account*.json", "*service_account*.json", "application_default_credentials.json"),
)
_FOLDERS = frozenset({".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh"})
_CONTENT = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|^\s*client-key-data:|^PuTTY-User-Key",
    re.MULTILINE,
)
_MOST_NAMED = 5


def require_no_secrets(files: Mapping[str, bytes], allowed: Sequence[str]) -> None:
    """Raise ValueError that names the files which look like keys and are not allowed."""
    found = [name for name in _suspects(files) if not any(fnmatch(name, one) for one in allowed)]
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        these = "looks like a key or a password" if len(found) == 1 else "look like keys"
        raise ValueError(
            f"{', '.join(found[:_MOST_NAMED])}{more} {these}, and everybody who may read "
            "ConfigMaps in the namespace could read what is sent. Move it out of the folder, and "
            f"give it to the job as a Secret; or send it anyway with --allow-file '{found[0]}'"
        )


def _suspects(files: Mapping[str, bytes]) -> Iterator[str]:
    for name, content in sorted(files.items()):
        path = PurePath(name)
        is_named = any(fnmatch(path.name.lower(), one) for one in _NAMES)
        if is_named or _FOLDERS & set(path.parts) or _CONTENT.search(content):
            yield name
