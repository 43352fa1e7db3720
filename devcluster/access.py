"""The access of clients to the API server: its address, and certificates."""

import json
import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Access:
    """The address of the API server and the certificate to show it, as one user."""

    server: str
    ca_file: Path
    cert_file: Path
    key_file: Path

    def ssl_context(self) -> ssl.SSLContext:
        """TLS that shows the client's certificate and trusts only this cluster's authority."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        context.load_cert_chain(self.cert_file, self.key_file)
        return context


def kubeconfig(access: Access) -> str:
    """A kubeconfig file (JSON, which is YAML) for one identity."""
    user = {
        "client-certificate": str(access.cert_file),
        "client-key": str(access.key_file),
    }
    cluster = {"server": access.server, "certificate-authority": str(access.ca_file)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": "devcluster", "user": user}],
        "contexts": [
            {"name": "devcluster", "context": {"cluster": "devcluster", "user": "devcluster"}}
        ],
        "current-context": "devcluster",
    }
    return json.dumps(content, indent=2) + "\n"
