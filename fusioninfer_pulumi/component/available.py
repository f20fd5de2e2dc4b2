"""Reads which replicas of a service are not available just now, and why."""

from __future__ import annotations

from collections.abc import Sequence

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.component.diagnosis.explain import explain_set
from fusioninfer_pulumi.component.diagnosis.read import read_service
from fusioninfer_pulumi.component.set_ready import is_ready
from fusioninfer_pulumi.kubernetes_api import KubernetesApi, UnreadableError

_SETS = ("leaderworkerset.x-k8s.io", "v1")


def read_down(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> set[str]:
    """Reads the sets of a service.

    Args:
        kubeconfig: Path or text of a kubeconfig, None for the one that kubectl would use.
        context: Its context, None for the current one.
        namespace: The service's namespace.
        service: Its name.

    Returns:
        Names of the sets that are not available.

    Raises:
        UnreadableError: They cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    custom = api.client.CustomObjectsApi(api.connection)
    listed = api.each(
        f"LeaderWorkerSets in {namespace}",
        custom.list_namespaced_custom_object,
        *(*_SETS, namespace, "leaderworkersets"),
        label_selector=f"{labels.SERVICE}={service}",
    )
    found = {each["metadata"]["name"] for each in listed if not is_ready(each)}
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return found


def explain_down(
    kubeconfig: str | None, context: str | None, namespace: str, service: str, sets: Sequence[str]
) -> list[str]:
    """Reads why sets of a service are not available; arguments and errors are those of `read_down`.

    Returns:
        One line for each reason.
    """
    seen = read_service(kubeconfig, context, namespace, service)
    return [line for name in sets for line in explain_set(name, seen)]
