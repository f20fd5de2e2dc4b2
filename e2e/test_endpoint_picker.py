"""Both endpoint pickers run with the rights of a Role, and see what happens in the cluster."""

from __future__ import annotations

import pytest

from e2e import objects
from e2e.harness import Cluster, EndpointPicker, ProgramFailedError

CONFIG = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 1
  - pluginRef: max-score-picker
"""

VERSIONS = pytest.mark.parametrize("version", ["1.2", "1.5"])


@VERSIONS
def test_picker_serves_and_sees_the_ready_pods(
    cluster: Cluster, namespace: str, version: str
) -> None:
    cluster.add_nodes(1)
    cluster.apply(objects.picker_rights("picker"), namespace=namespace)
    pool = objects.inference_pool("pool", selector={"app": "engine"})
    cluster.apply([pool], namespace=namespace)

    with _picker(cluster, namespace, version, CONFIG) as picker:
        picker.wait_serving()
        assert picker.ready_pods() == set()
        engine = objects.pod("engine")
        engine["metadata"]["labels"] = {"app": "engine"}
        cluster.apply([engine], namespace=namespace)
        cluster.wait(lambda: picker.ready_pods() == {"engine"}, message=picker.metrics)


@VERSIONS
def test_picker_that_refuses_its_configuration_is_reported(
    cluster: Cluster, namespace: str, version: str
) -> None:
    cluster.apply(objects.picker_rights("picker"), namespace=namespace)
    broken = CONFIG.replace("queue-scorer", "no-such-scorer")
    with (
        _picker(cluster, namespace, version, broken) as picker,
        pytest.raises(ProgramFailedError, match="no-such-scorer"),
    ):
        picker.wait_serving()


def test_picker_without_rights_does_not_serve(cluster: Cluster, namespace: str) -> None:
    cluster.apply([objects.service_account("picker")], namespace=namespace)
    pool = objects.inference_pool("pool", selector={"app": "engine"})
    cluster.apply([pool], namespace=namespace)
    with (
        _picker(cluster, namespace, "1.5", CONFIG) as picker,
        pytest.raises(ProgramFailedError, match="forbidden"),
    ):
        picker.wait_serving(timeout=4)


def _picker(cluster: Cluster, namespace: str, version: str, config: str) -> EndpointPicker:
    return EndpointPicker(
        cluster,
        version=version,
        namespace=namespace,
        pool="pool",
        account="picker",
        config=config,
    )
