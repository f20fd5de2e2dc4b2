"""Monitors and alerts through the real Prometheus operator into a real Prometheus."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from e2e import inputs
from e2e.catalog import manifests, program, tool
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS, Cluster, Object
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.serve import prometheus

pytestmark = pytest.mark.long

NAME = "prometheus-operator-program"
MONITORING = "monitoring.coreos.com/v1"
CONFIG = "prometheus.yaml.gz"
RULES = "/etc/prometheus/rules/"
WAIT = 60.0
#: The loader in C where there is one: the definitions are long, and the other takes seconds.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.fixture(scope="module")
def watched() -> Iterator[Cluster]:
    """A cluster with the operator, and its kinds."""
    if not tool(NAME).is_built:
        pytest.skip(f"the operator is not built: python -m e2e.build_tools --only {NAME}")
    if (reason := prometheus.absent()) is not None:
        pytest.skip(reason)
    with Cluster({LWS, KUBE_SCHEDULER, KWOK}) as cluster:
        kinds = [
            yaml.load(path.read_text(encoding="utf-8"), LOADER) for path in manifests(NAME, "crds")
        ]
        cluster.apply(kinds)
        names = {(kind["spec"]["versions"][0]["name"], kind["spec"]["names"]["plural"])
                 for kind in kinds}  # fmt: skip
        # The operator looks once, at its start.
        cluster.wait(lambda: names <= served(cluster), WAIT, "the operator's kinds")
        (port,) = free_ports(1)
        started = cluster.programs.start(
            NAME,
            [program(NAME, "operator"), f"--web.listen-address={LOOPBACK}:{port}"],
            env={"KUBECONFIG": str(cluster.plane.kubeconfig("admin"))},
        )
        wait_http(started, f"http://{LOOPBACK}:{port}/healthz", timeout=WAIT)
        yield cluster


def served(cluster: Cluster) -> set[tuple[str, str]]:
    """Version and plural of the operator's kinds that the API server serves."""
    return {
        (version, resource["name"])
        for version in ("v1", "v1alpha1")
        for resource in cluster.request("GET", f"/apis/monitoring.coreos.com/{version}")[
            "resources"
        ]
    }


def scraped_service() -> Object:
    """A service with everything that the operator reads."""
    roles = [
        inputs.role("prefill", "prefiller", 1, gpus=1),
        inputs.role("decode", "decoder", 2, 2, gpus=1),
        {
            "name": "router",
            "componentType": "router",
            "strategy": "prefix-cache",
            "httproute": {"parentRefs": [{"name": "gateway"}]},
            "endpointPicker": {"metrics": "Authenticated"},
        },
    ]
    service = inputs.service("svc", *roles, schedulerName="default-scheduler",
                             gangPolicy={"mode": "Off"})  # fmt: skip
    service["spec"]["monitoring"] = {
        "alerts": {"labels": {"team": "search"}},
        "dashboards": {},
        "interval": "2s",
        "labels": {"release": "own"},
    }
    return service


@dataclass(frozen=True)
class Written:
    """What the operator wrote for a Prometheus.

    Attributes:
        config: The configuration.
        rules: The rule files by name.
    """

    config: Object
    rules: dict[str, str]


def written(cluster: Cluster, namespace: str, monitors: int) -> Written:
    """Waits until the operator has written rules, and a job for each of so many monitors."""
    selected: Object = {"matchLabels": {"release": "own"}}
    server = {
        "apiVersion": MONITORING,
        "kind": "Prometheus",
        "metadata": {"name": "own", "namespace": namespace},
        "spec": {
            "podMonitorSelector": selected,
            "serviceMonitorSelector": selected,
            "ruleSelector": selected,
            "evaluationInterval": "1s",
        },
    }
    cluster.apply([server])

    def config() -> Object:
        data = cluster.get("v1/Secret", "prometheus-own", namespace)["data"][CONFIG]
        text = gzip.decompress(base64.b64decode(data)).decode()
        # As the config reloader in Prometheus' pod does.
        for name, value in (("SHARD", "0"), ("POD_NAME", "prometheus-own-0")):
            text = text.replace(f"$({name})", value)
        return dict(yaml.safe_load(text))

    cluster.wait(lambda: len(config().get("scrape_configs") or ()) == monitors, WAIT, config)

    def rules() -> dict[str, str]:
        return dict(
            cluster.get("v1/ConfigMap", "prometheus-own-rulefiles-0", namespace).get("data") or {}
        )

    return Written(config(), cluster.wait(rules, WAIT, "rule files"))


@contextmanager
def running(cluster: Cluster, config: Object, rules: dict[str, str]) -> Iterator[str]:
    """Runs Prometheus; its address."""
    (port,) = free_ports(1)
    folder = cluster.directory / f"own-{port}"
    folder.mkdir()
    for name, text in rules.items():
        (folder / name).write_text(text, encoding="utf-8")
    paths = [str(folder / Path(path).name) for path in config.get("rule_files", ())]
    path = folder / "config.yml"
    path.write_text(yaml.safe_dump({**config, "rule_files": paths}), encoding="utf-8")
    name = f"own-{port}"
    command = [prometheus.PROGRAM, f"--config.file={path}", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address={LOOPBACK}:{port}"]  # fmt: skip
    started = cluster.programs.start(name, command)
    wait_http(started, f"http://{LOOPBACK}:{port}/-/ready")
    yield f"http://{LOOPBACK}:{port}/api/v1"
    cluster.programs.stop(name)


def asked(url: str) -> Any:
    body = json.loads(urllib3.request("GET", url, timeout=30).data)
    assert body["status"] == "success", body
    return body["data"]


def with_targets(config: Object, targets: Sequence[Object]) -> Object:
    """The configuration with these targets: Debian's Prometheus has no discovery in Kubernetes."""
    changed = copy.deepcopy(config)
    for job in changed["scrape_configs"]:
        (discovery,) = job.pop("kubernetes_sd_configs", [{"role": "pod"}])
        job["static_configs"] = list(targets) if discovery["role"] == "pod" else []
    return changed


@pytest.mark.proves(
    "The Prometheus operator accepts the monitors and alerts; Prometheus loads them"
)
def test_operator_passes_alerts_and_targets_to_prometheus(watched: Cluster) -> None:
    namespace = watched.new_namespace()
    watched.add_nodes(3)
    objects = inputs.with_namespace(inputs.objects_of(inputs.plan_of(scraped_service())), namespace)
    kinds = ("LeaderWorkerSet", "PodMonitor", "ServiceMonitor", "PrometheusRule", "Service")
    watched.apply([item for item in objects if item["kind"] in kinds])

    watched.wait(lambda: len(watched.ready(namespace)) == 5, WAIT, lambda: watched.pods(namespace))
    watched.wait(
        lambda: all(pod["status"].get("podIP") for pod in watched.pods(namespace)),
        WAIT,
        lambda: [(pod["metadata"]["name"], pod["status"]) for pod in watched.pods(namespace)],
    )
    made = written(watched, namespace, monitors=3)
    (rule_file,) = made.config["rule_files"]
    assert rule_file.startswith(RULES)
    (rule,) = (item for item in objects if item["kind"] == "PrometheusRule")
    ours = {
        (item["alert"], item["labels"].get("role"), item["annotations"]["runbook_url"])
        for group in rule["spec"]["groups"]
        for item in group["rules"]
    }
    assert len(ours) > 8
    rules = {name: text for name, text in made.rules.items() if "svc-alerts" in name}
    assert list(rules) == list(made.rules)

    pods = list(prometheus.containers(watched, namespace))
    config = with_targets(made.config, pods)
    config["rule_files"] = list(rules)
    monitored = [item for item in objects if item["kind"] == "PodMonitor"]
    assumed = {
        "global": made.config["global"],
        "scrape_configs": [
            {**job, "static_configs": pods} for item in monitored for job in prometheus.jobs(item)
        ],
    }
    with running(watched, config, rules) as url, running(watched, assumed, {}) as other:

        def loaded() -> list[Object]:
            groups = asked(f"{url}/rules")["groups"]
            return [item for group in groups for item in group["rules"]]

        watched.wait(lambda: {item["health"] for item in loaded()} == {"ok"}, WAIT, loaded)
        assert {
            (item["name"], item["labels"].get("role"), item["annotations"]["runbook_url"])
            for item in loaded()
        } == ours
        assert {item["labels"]["team"] for item in loaded()} == {"search"}

        def labels(address: str) -> list[Object]:
            targets = asked(f"{address}/targets?state=active")["activeTargets"]
            return sorted((item["labels"] for item in targets), key=str)

        watched.wait(lambda: len(labels(url)) == 3, WAIT, lambda: labels(url))
        found = labels(url)
        assert {(item["fusioninfer_io_role_name"], item["pod"]) for item in found} == {
            ("prefill", "svc-prefill-0-0"),
            ("decode", "svc-decode-0-0"),
            ("decode", "svc-decode-1-0"),
        }
        # What `e2e.serve.prometheus` says that the operator writes is what it writes.
        watched.wait(lambda: len(labels(other)) == 3, WAIT, lambda: labels(other))
        assert found == labels(other)
