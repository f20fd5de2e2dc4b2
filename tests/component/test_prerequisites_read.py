"""What is read of ConfigMaps beside LeaderWorkerSet's manager, which may be anybody's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fusioninfer_pulumi.component.prerequisites._read import _Reader

HEAD = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"
ON = f"{HEAD}gangSchedulingManagement:\n  schedulerProvider: volcano\n"
PROSE = "How to write a config.lws.x-k8s.io/v1alpha1 Configuration"


@pytest.mark.parametrize(
    ("texts", "provider"),
    [
        ([HEAD], ""),
        ([ON], "volcano"),
        ([HEAD, ON], "volcano"),
        ([f"{HEAD}---\n{ON}"], "volcano"),
        ([f"{HEAD}gangSchedulingManagement: null\n"], ""),
        # Nobody's configuration: not known.
        ([], None),
        ([PROSE], None),
        ([f"- {PROSE}"], None),
        ([HEAD + "webhook: {{ .Values.port }}"], None),
        ([HEAD + "at: 2026-13-45"], None),
        ([HEAD + "own: !Ref x"], None),
        (["kind: Values\nmanager: config.lws.x-k8s.io/v1alpha1"], None),
        ([f"{HEAD}gangSchedulingManagement: volcano\n"], None),
        # What others wrote hides nothing.
        ([PROSE, ON, HEAD + "own: !Ref x"], "volcano"),
    ],
)
def test_the_gang_provider_of_the_manager(texts: list[str], provider: str | None) -> None:
    listed = {"items": [{"data": {"a.yaml": text}} for text in texts] + [{}]}
    core = SimpleNamespace(list_namespaced_config_map=None)
    client = SimpleNamespace(CoreV1Api=lambda _: core)
    api: Any = SimpleNamespace(client=client, connection=None, get=lambda *_: listed)
    assert _Reader(api).lws_provider("lws-system") == provider
