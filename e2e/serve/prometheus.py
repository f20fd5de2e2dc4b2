"""A real Prometheus that scrapes a service's PodMonitors and ServiceMonitors.

The Prometheus operator does not run; this module generates its configuration for the fields that
the library uses, after `pkg/prometheus/promcfg.go`. Debian's Prometheus lacks Kubernetes service
discovery, so it reads targets with the same labels from files; relabeling selects them.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import urllib3
import yaml

from e2e.engine.services import poll
from e2e.harness import Cluster, Object
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, find_ports

PROGRAM = "prometheus"
INTERVAL = "2s"
_META = "__meta_kubernetes"


def explain_missing() -> str | None:
    return None if shutil.which(PROGRAM) else f"needs {PROGRAM} on PATH (Debian: {PROGRAM})"


class Prometheus:
    """A Prometheus that scrapes a service and evaluates its rules."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        objects: Sequence[Object],
        more: Sequence[Object] = (),
        *,
        port: int | None = None,
    ) -> None:
        """Start Prometheus, with `more` scrape configurations."""
        self._cluster = cluster
        self._namespace = namespace
        port = port or find_ports(1)[0]
        self._url = f"http://{LOOPBACK}:{port}"
        folder = cluster.directory / PROGRAM
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._targets = {kind: folder / f"{kind}.json" for kind in DISCOVERIES}
        self.discover()
        monitor_configs = [
            {**job, "file_sd_configs": [{"files": [str(self._targets[item["kind"]])]}]}
            for item in objects
            if item["kind"] in self._targets
            for job in make_scrape_configs(item)
        ]
        groups = [
            group
            for item in objects
            if item["kind"] == "PrometheusRule"
            for group in item["spec"]["groups"]
        ]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
        config = {
            "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [*monitor_configs, *more],
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.program = cluster.programs.start(
            PROGRAM,
            [PROGRAM, f"--config.file={folder / 'config.yaml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={LOOPBACK}:{port}"],
        )  # fmt: skip
        wait_http(self.program, f"{self._url}/-/ready")

    def close(self) -> None:
        self._cluster.programs.stop(PROGRAM)

    def discover(self) -> None:
        for kind, targets in DISCOVERIES.items():
            file = self._targets[kind].with_suffix(".new")
            listed = list(targets(self._cluster, self._namespace))
            file.write_text(json.dumps(listed), encoding="utf-8")
            file.replace(self._targets[kind])

    def keep_discovering(self) -> AbstractContextManager[list[None]]:
        return poll(self.discover, 1)

    def query(self, expression: str) -> list[float]:
        answer = self._get("query", query=expression)
        values = [float(series["value"][1]) for series in answer["result"]]
        return [value for value in values if not math.isnan(value)]

    def alerts(self) -> dict[str, str]:
        """Return the state of each alert; `err` if its expression cannot be evaluated."""
        return {
            f"{rule['name']} {rule['labels'].get('role', '')}".strip(): (
                rule["state"] if rule["health"] == "ok" else rule["health"]
            )
            for group in self._get("rules")["groups"]
            for rule in group["rules"]
        }

    def targets(self) -> list[str]:
        return [
            f"{target['labels'].get('job')} {target['health']} {target['lastError']}".strip()
            for target in self._get("targets", state="active")["activeTargets"]
        ]

    def _get(self, path: str, **fields: str) -> Any:
        answer = urllib3.request("GET", f"{self._url}/api/v1/{path}", fields=fields, timeout=30)
        body = json.loads(answer.data)
        assert body["status"] == "success", body
        return body["data"]


def discover_containers(cluster: Cluster, namespace: str) -> Iterator[Object]:
    """Yield a target per declared container port, as in pod discovery."""
    for pod in cluster.pods(namespace):
        listed = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
        for container in listed:
            for port in container.get("ports", ()):
                number = port["containerPort"]
                labels = {
                    **_make_pod_labels(pod),
                    f"{_META}_pod_container_name": container["name"],
                    f"{_META}_pod_container_port_name": port.get("name", ""),
                    f"{_META}_pod_container_port_number": str(number),
                }
                if address := pod["status"].get("podIP"):
                    yield {"targets": [f"{address}:{number}"], "labels": labels}


def discover_endpoints(cluster: Cluster, namespace: str) -> Iterator[Object]:
    """Yield a target per address and port of a Service, as in endpoints discovery."""
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods(namespace)}
    services = {item["metadata"]["name"]: item for item in cluster.list("v1/Service", namespace)}
    for item in cluster.list("v1/Endpoints", namespace):
        service = services.get(item["metadata"]["name"])
        if service is None:
            continue
        service_labels = {
            f"{_META}_service_name": service["metadata"]["name"],
            **_make_meta_labels("service", service),
        }
        for subset in item.get("subsets", ()):
            for address in subset.get("addresses", ()):
                pod = pods.get(address.get("targetRef", {}).get("name", ""))
                for port in subset.get("ports", ()):
                    labels = {
                        **service_labels,
                        **({} if pod is None else _make_pod_labels(pod)),
                        f"{_META}_endpoint_port_name": port.get("name", ""),
                    }
                    yield {"targets": [f"{address['ip']}:{port['port']}"], "labels": labels}


DISCOVERIES = {"PodMonitor": discover_containers, "ServiceMonitor": discover_endpoints}
"""Functions that yield targets, by kind of monitor."""


def _make_pod_labels(pod: Object) -> Object:
    meta = pod["metadata"]
    return {
        f"{_META}_namespace": meta["namespace"],
        f"{_META}_pod_name": meta["name"],
        **_make_meta_labels("pod", pod),
    }


def _make_meta_labels(kind: str, item: Object) -> Object:
    labels = item["metadata"].get("labels", {})
    return {
        **{f"{_META}_{kind}_label_{_sanitize(key)}": value for key, value in labels.items()},
        **{f"{_META}_{kind}_labelpresent_{_sanitize(key)}": "true" for key in labels},
    }


def make_scrape_configs(monitor: Object) -> Iterator[Object]:
    """Yield the scrape configurations of a PodMonitor or ServiceMonitor without targets."""
    is_pod = monitor["kind"] == "PodMonitor"
    meta, spec = monitor["metadata"], monitor["spec"]
    source = f"{_META}_pod" if is_pod else f"{_META}_service"
    for number, endpoint in enumerate(spec["podMetricsEndpoints" if is_pod else "endpoints"]):
        port = str(endpoint.get("port", endpoint.get("portNumber")))
        if not is_pod:
            port_label = f"{_META}_endpoint_port_name"
        else:
            port_label = f"{source}_container_port_{'name' if 'port' in endpoint else 'number'}"
        job = f"{meta['namespace']}/{meta['name']}"
        yield {
            "job_name": f"{monitor['kind']}/{job}/{number}",
            "metrics_path": endpoint["path"],
            "relabel_configs": [
                *(
                    _keep(f"{source}_label_{_sanitize(key)}", value)
                    for key, value in spec["selector"]["matchLabels"].items()
                ),
                _keep(port_label, port),
                _copy(f"{_META}_namespace", "namespace"),
                _copy(f"{_META}_pod_name", "pod"),
                _copy(f"{_META}_pod_container_name", "container"),
                *(
                    _copy(f"{source}_label_{_sanitize(key)}", _sanitize(key))
                    for key in spec.get("podTargetLabels", ())
                ),
                {"target_label": "endpoint", "replacement": port},
                {"target_label": "job", "replacement": job}
                if is_pod
                else _copy(f"{source}_name", "job"),
                *([] if is_pod else [_copy(f"{source}_name", "service")]),
            ],
        }


def _sanitize(label: str) -> str:
    return re.sub(r"\W", "_", label)


def _keep(source: str, value: str) -> Object:
    return {"action": "keep", "source_labels": [source], "regex": re.escape(value)}


def _copy(source: str, target: str) -> Object:
    return {"source_labels": [source], "target_label": target}
