"""The metrics of an autoscaling policy: of pods for HPA, or queries for KEDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.kthena.pods import NAME, PREFIX, ROLE
from fusioninfer_pulumi.importers.kthena.scaling_models import Metric, MetricSource, PodSource
from fusioninfer_pulumi.importers.kthena.servers import Serving

_SCRAPED = (
    "Kthena asks the pods itself; a HorizontalPodAutoscaler asks custom.metrics.k8s.io for {name}: "
    "have it scraped (monitoring) and served by an adapter"
)


def metrics_of(
    book: Book,
    role: str,
    serving: Serving,
    metrics: Sequence[tuple[Metric, At]],
    sources: Mapping[str, tuple[MetricSource, At]],
    at: At,
) -> dict[str, Any]:
    """Builds `engine`, `metrics` and `prometheus` of a role's autoscaling.

    Both systems divide what pods have by the target for each of them, and what a query answers by
    the target for all, and the metric that asks for most instances counts
    (pkg/autoscaler/algorithm/recommendation.go).

    Args:
        book: The book of the documents.
        role: Name of the role.
        serving: Its ModelServing.
        metrics: The metrics.
        sources: Where they come from, by name.
        at: Where the role is scaled.
    """
    of_pods: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    servers: dict[str, None] = {}
    for metric, place in metrics:
        book.read(place)
        source, where = sources.get(metric.key, (MetricSource(), place))
        target = str(metric.target_value)
        if source.prometheus is not None:
            prometheus = where / "prometheus"
            servers[source.prometheus.server_url] = None
            if len(servers) > 1:
                servers.popitem()
                book.lost(prometheus / "serverURL", "a role asks one Prometheus")
                continue
            book.read(where)
            queries.append({"query": source.prometheus.query, "target": target})
            continue
        book.read(where)
        pod = source.pod or PodSource()
        name = pod.name or metric.key
        book.warn(where, _SCRAPED.format(name=name))
        _selector(book, role, serving, pod, where / "pod")
        of_pods.append({"name": name, "target": target})
    for key, (_, where) in sources.items():
        if all(metric.key != key for metric, _ in metrics):
            book.note(where, "no metric has this name; left out")
    if queries and of_pods:
        book.lost(
            at,
            "takes its metrics from pods and from Prometheus: an autoscaler of ours asks one of "
            "them; write those of pods as queries (they are left out)",
        )
    if queries:
        return {"engine": "KEDA", "prometheus": next(iter(servers)), "metrics": queries}
    return {"metrics": of_pods}


def _selector(book: Book, role: str, serving: Serving, pod: PodSource, at: At) -> None:
    """Metrics are those of the role's leaders; a selector may say no more than that."""
    given = pod.label_selector
    if given is None:
        return
    own = {NAME: str(serving.carrier.main.name), ROLE: role, f"{PREFIX}entry": "true"}
    same = all(own.get(key) == value for key, value in (given.match_labels or {}).items())
    if given.match_expressions or not same:
        book.lost(
            at / "labelSelector",
            f"the metric is that of all entry pods of {role}: it may choose none of them",
        )
