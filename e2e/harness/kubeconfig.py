"""Write kubeconfig files: the one way in which every program finds the API server."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def write_kubeconfig(
    path: Path, *, server: str, authority: Path, token: str, impersonate: str | None = None
) -> Path:
    """Write one for one user and return its path. JSON is YAML, so any client reads it."""
    user = {"token": token} | ({"as": impersonate} if impersonate else {})
    trusted = base64.b64encode(authority.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [
            {"name": "e2e", "cluster": {"server": server, "certificate-authority-data": trusted}}
        ],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return path
