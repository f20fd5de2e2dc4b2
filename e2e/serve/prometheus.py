"""A real Prometheus that scrapes what the monitors of a service select.

The Prometheus operator turns monitors into a configuration; it is not run here. What it would write
for the fields that the library sets is written below, by its `pkg/prometheus/promcfg.go`.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import urllib3
import yaml

from e2e.harness import Cluster, Object
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, free_ports

PROGRAM = "prometheus"
INTERVAL = "2s"
_POD = "__meta_kubernetes_pod"
_SERVICE = "__meta_kubernetes_service"


def absent() -> str | None:
    """Why it cannot run here, None where it can."""
    return None if shutil.which(PROGRAM) else f"needs {PROGRAM} on PATH (Debian: {PROGRAM})"


class Prometheus:
    """Scrapes a service and evaluates its rules, until it is closed."""

    def __init__(self, cluster: Cluster, objects: Sequence[Object]) -> None:
        """Start it; the objects are those of one service."""
        self._cluster = cluster
        (port,) = free_ports(1)
        self._url = f"http://{LOOPBACK}:{port}"
        folder = cluster.directory / PROGRAM
        folder.mkdir()
        jobs = [job for item in objects for job in _jobs(item, str(cluster.kubeconfig))]
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
            "scrape_configs": jobs,
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.program = cluster.programs.start(
            PROGRAM,
            [PROGRAM, f"--config.file={folder / 'config.yaml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={LOOPBACK}:{port}"],
        )  # fmt: skip
        wait_http(self.program, f"{self._url}/-/ready")

    def close(self) -> None:
        """End it."""
        self._cluster.programs.stop(PROGRAM)

    def query(self, expression: str) -> list[float]:
        """The values of an expression's series that are numbers."""
        answer = self._get("query", query=expression)
        values = [float(series["value"][1]) for series in answer["result"]]
        return [value for value in values if not math.isnan(value)]

    def alerts(self) -> dict[str, str]:
        """The state of each alert; `err` where its expression cannot be evaluated."""
        return {
            f"{rule['name']} {rule['labels'].get('role', '')}".strip(): (
                rule["state"] if rule["health"] == "ok" else rule["health"]
            )
            for group in self._get("rules")["groups"]
            for rule in group["rules"]
        }

    def targets(self) -> list[str]:
        """Job, health and last error of each target."""
        return [
            f"{target['labels'].get('job')} {target['health']} {target['lastError']}".strip()
            for target in self._get("targets", state="active")["activeTargets"]
        ]

    def _get(self, path: str, **fields: str) -> Any:
        answer = urllib3.request("GET", f"{self._url}/api/v1/{path}", fields=fields, timeout=30)
        body = json.loads(answer.data)
        assert body["status"] == "success", body
        return body["data"]


def _jobs(monitor: Object, kubeconfig: str) -> Iterator[Object]:
    """The scrape configurations of a PodMonitor or ServiceMonitor; none of another object."""
    if monitor["kind"] not in ("PodMonitor", "ServiceMonitor"):
        return
    of_pods = monitor["kind"] == "PodMonitor"
    meta, spec = monitor["metadata"], monitor["spec"]
    source = _POD if of_pods else _SERVICE
    for number, endpoint in enumerate(spec["podMetricsEndpoints" if of_pods else "endpoints"]):
        relabeled = [
            _keep(f"{source}_label_{_name(key)}", value)
            for key, value in spec["selector"]["matchLabels"].items()
        ]
        port = endpoint.get("port", endpoint.get("portNumber"))
        if not of_pods:
            named = "__meta_kubernetes_endpoint_port_name"
        elif "port" in endpoint:
            named = f"{_POD}_container_port_name"
        else:
            named = f"{_POD}_container_port_number"
        relabeled += [
            _keep(named, str(port)),
            _copy("__meta_kubernetes_namespace", "namespace"),
            _copy(f"{_POD}_name", "pod"),
            _copy(f"{_POD}_container_name", "container"),
            *(
                _copy(f"{_POD}_label_{_name(key)}", _name(key))
                for key in spec.get("podTargetLabels", ())
            ),
            {"target_label": "endpoint", "replacement": str(port)},
        ]
        if of_pods:
            job = f"{meta['namespace']}/{meta['name']}"
            relabeled.append({"target_label": "job", "replacement": job})
        else:
            relabeled.append(_copy(f"{_SERVICE}_name", "job"))
        found = {"role": "pod" if of_pods else "endpoints", "kubeconfig_file": kubeconfig,
                 "namespaces": {"names": [meta["namespace"]]}}  # fmt: skip
        yield {
            "job_name": f"{monitor['kind']}/{meta['namespace']}/{meta['name']}/{number}",
            "metrics_path": endpoint["path"],
            "kubernetes_sd_configs": [found],
            "relabel_configs": relabeled,
        }


def _name(label: str) -> str:
    return re.sub(r"\W", "_", label)


def _keep(source: str, value: str) -> Object:
    return {"action": "keep", "source_labels": [source], "regex": re.escape(value)}


def _copy(source: str, target: str) -> Object:
    return {"source_labels": [source], "target_label": target}
