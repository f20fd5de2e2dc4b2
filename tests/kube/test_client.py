"""The connection to a cluster."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import yaml
from kubernetes.config import kube_config
from urllib3.exceptions import InsecureRequestWarning

from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [
        {
            "name": "c",
            "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True},
        }
    ],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.mark.parametrize(("action", "count"), [(None, 1), ("ignore", 0), ("always", 3)])
def test_unverified_connection_warns_once(action: str | None, count: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        # urllib3's default.
        warnings.simplefilter("always", InsecureRequestWarning.__base__)
        if action is not None:
            warnings.simplefilter(action, InsecureRequestWarning)  # type: ignore[arg-type]
        for _ in range(3):
            # Each request reconnects, as after a failure.
            KubernetesApi(yaml.safe_dump(KUBECONFIG), None)
            warnings.warn("Unverified HTTPS request to 127.0.0.1", InsecureRequestWarning, 1)
    assert len(caught) == count


def test_missing_kubeconfig_is_not_searched_in_the_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(UnreadableError, match=r"No configuration found.*set KUBECONFIG"):
        KubernetesApi(None, None)
