"""Optional components: LWS, schedulers, Kueue and kwok.

Each start function returns a function that waits until the program is ready (kube-scheduler: only
checks that it runs), so that programs start in parallel.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import yaml

from e2e.catalog import manifests, program
from e2e.harness.api import Client
from e2e.harness.control_plane import ControlPlane, format_arguments, wait_http
from e2e.harness.processes import LOOPBACK, Programs
from e2e.harness.resources import Object, read_objects
from e2e.harness.stages import write_stages

LWS, VOLCANO, KUBE_SCHEDULER, KWOK = "lws", "volcano", "kube-scheduler", "kwok"
COMPONENTS = frozenset({LWS, VOLCANO, KUBE_SCHEDULER, KWOK})
KUEUE = "kueue"
"""Not in COMPONENTS, because its webhooks intercept all pods of a cluster."""

SCHEDULER_CONFIG = Path(__file__).with_name("volcano.yaml")

KUEUE_GROUPS = frozenset({"", "leaderworkerset.x-k8s.io", "kueue.x-k8s.io"})
"""API groups whose webhooks are registered."""

Wait = Callable[[], None]


def _write_manager_config(
    plane: ControlPlane, name: str, api_version: str, ports: list[int], **more: Any
) -> Path:
    webhook_port, health_port = ports
    (config,) = read_objects(
        "configuration of a manager",
        api_version=api_version,
        port=webhook_port,
        certificates=str(plane.certificates.directory),
        health=f"{LOOPBACK}:{health_port}",
    )
    path = plane.directory / f"{name}.json"
    path.write_text(json.dumps({**config, **more}), encoding="utf-8")
    return path


def start_lws(
    programs: Programs, plane: ControlPlane, api: Client, ports: list[int], tool: str
) -> Wait:
    webhook_port, health_port = ports
    path = _write_manager_config(plane, "lws", "config.lws.x-k8s.io/v1alpha1", ports)
    started = programs.start(
        "lws", [program(tool, "lws"), f"--config={path}", f"--kubeconfig={plane.kubeconfig('lws')}"]
    )

    def wait_ready() -> None:
        wait_http(started, f"http://{LOOPBACK}:{health_port}/readyz")
        # Any response means that the webhook server uses our certificate.
        wait_http(
            started,
            f"https://{LOOPBACK}:{webhook_port}/",
            authority=plane.certificates.authority,
            accept=range(200, 500),
        )
        # Registered last, because pods are rejected while a webhook does not respond.
        authority = plane.certificates.authority.read_bytes()
        api.apply(_read_webhooks(tool, f"https://{LOOPBACK}:{webhook_port}", authority))

    return wait_ready


def start_volcano(
    programs: Programs,
    plane: ControlPlane,
    api: Client,
    ports: list[int],
    plugins: Sequence[str] = (),
    plugin_arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Wait:
    """Start Volcano's scheduler without its controllers, and open its queue.

    The second port serves metrics; `plugins` are additional ones.
    """
    health_port, metrics_port = ports
    path = plane.directory / "volcano.yaml"
    config = yaml.safe_load(SCHEDULER_CONFIG.read_text(encoding="utf-8"))
    if plugins:
        config["tiers"].append({"plugins": [{"name": name} for name in plugins]})
    for plugin in (item for tier in config["tiers"] for item in tier["plugins"]):
        if plugin_arguments is not None and plugin["name"] in plugin_arguments:
            plugin["arguments"] = dict(plugin_arguments[plugin["name"]])
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    settings = format_arguments(
        "volcano",
        kubeconfig=plane.kubeconfig("volcano"),
        config=path,
        health_port=health_port,
        metrics_port=metrics_port,
    )
    started = programs.start("volcano", [program("volcano", "vc-scheduler"), *settings])

    def wait_ready() -> None:
        wait_http(started, f"http://{LOOPBACK}:{health_port}/healthz")
        api.wait(lambda: api.get("Queue", "default"), message="Volcano's default queue")
        opened = {"status": {"state": "Open"}}
        api.patch("Queue", "default", opened, subresource="status")

    return wait_ready


def start_kueue(programs: Programs, plane: ControlPlane, api: Client, ports: list[int]) -> Wait:
    """Start Kueue with its webhooks and its integration of LeaderWorkerSets."""
    webhook_port, health_port = ports
    frameworks = {"frameworks": ["leaderworkerset.x-k8s.io/leaderworkerset"]}
    api_version = "config.kueue.x-k8s.io/v1beta2"
    path = _write_manager_config(plane, "kueue", api_version, ports, integrations=frameworks)
    url = f"https://{LOOPBACK}:{webhook_port}"
    authority = plane.certificates.authority
    started = programs.start(
        "kueue",
        [
            *_mount_metrics_certificate(plane.certificates.directory),
            program("kueue", "kueue"),
            f"--config={path}",
            f"--kubeconfig={plane.kubeconfig('kueue')}",
            # This aggregated API would need a Service.
            "--feature-gates=VisibilityOnDemand=false",
        ],
    )

    def wait_ready() -> None:
        wait_http(started, f"http://{LOOPBACK}:{health_port}/readyz")
        wait_http(started, f"{url}/", authority=authority, accept=range(200, 500))
        api.apply(_read_webhooks("kueue", url, authority.read_bytes(), KUEUE_GROUPS))

    return wait_ready


def _mount_metrics_certificate(directory: Path) -> list[str | Path]:
    """Return a command prefix that mounts the certificate where Kueue requires one.

    Kueue requires it even with metrics off, and its path is not configurable.
    """
    folder = "/etc/kueue/metrics"
    # Set again, because the kernel clears it when credentials change.
    run = 'exec setpriv --pdeathsig=KILL "$@"'
    script = f'mount -t tmpfs tmpfs /etc; mkdir -p {folder}; ln -s "$0" {folder}/certs; {run}'
    return ["unshare", "--mount", "--map-root-user", "sh", "-ec", script, directory]


def read_kueue_definitions(webhook_port: int, authority: bytes) -> list[Object]:
    """Return Kueue's CustomResourceDefinitions with conversion webhooks as in its kustomization."""
    bundle = base64.b64encode(authority).decode()
    client = {"url": f"https://{LOOPBACK}:{webhook_port}/convert", "caBundle": bundle}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    converted = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
    documents: list[Any] = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in manifests("kueue", "crds")
    ]
    for definition in documents:
        if definition["spec"]["names"]["plural"] in converted:
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return documents


def start_kube_scheduler(programs: Programs, plane: ControlPlane) -> Wait:
    name = "kube-scheduler"
    settings = format_arguments(name, kubeconfig=plane.kubeconfig(name))
    started = programs.start(name, plane.program(name, *settings))
    return started.check  # It serves no health endpoint here; pods stay pending until it runs.


def start_kwok(programs: Programs, plane: ControlPlane, ports: list[int]) -> Wait:
    (port,) = ports
    stages = write_stages(plane.directory / "stages.yaml")
    kubeconfig = plane.kubeconfig("kwok")
    settings = format_arguments("kwok", kubeconfig=kubeconfig, stages=stages, port=port)
    started = programs.start("kwok", [program("kwok", "kwok"), *settings])
    return lambda: wait_http(started, f"http://{LOOPBACK}:{port}/healthz")


def read_definitions(lws: str) -> list[Object]:
    """Return the CRDs of kinds that can be generated, even if their controllers do not run."""
    tools = (lws, "volcano", "epp-1.5", "gateway-api", "prometheus-operator", "keda")
    files = [file for name in tools for file in manifests(name, "crds")]
    # The loader in Python takes seconds for these long definitions.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = [d for f in files for d in yaml.load_all(f.read_text(encoding="utf-8"), loader)]
    return [d for d in documents if d and d["kind"] == "CustomResourceDefinition"]


def _read_webhooks(
    tool: str, url: str, authority: bytes, groups: Set[str] | None = None
) -> list[Object]:
    """Return the webhook configurations of a tool, of all or some API groups, with this URL."""
    (file,) = manifests(tool, "webhooks")
    documents: list[Any] = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    configurations = [d for d in documents if d]
    bundle = base64.b64encode(authority).decode()
    for configuration in configurations:
        configuration["metadata"]["name"] = f"{tool}-{configuration['metadata']['name']}"
        configuration["webhooks"] = [
            hook
            for hook in configuration["webhooks"]
            if groups is None or groups & {*hook["rules"][0]["apiGroups"]}
        ]
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": bundle}
            if groups is None and webhook["rules"][0]["resources"] == ["pods"]:
                # As in upstream's kustomization. Without it, the webhook intercepts all pods.
                name = {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
                webhook["objectSelector"] = {"matchExpressions": [name]}
    return configurations
