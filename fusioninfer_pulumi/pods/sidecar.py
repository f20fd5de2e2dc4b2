"""The sidecar of a decode pod, and its rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import SidecarArgs
from fusioninfer_pulumi.engines.engine import EngineCommand, KvConnector
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer
from fusioninfer_pulumi.findings import Finding, error, info, parse_path, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.containers import free_name
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.pickers import sidecar
from fusioninfer_pulumi.pickers.family import PickerFamily
from fusioninfer_pulumi.pickers.sidecar import HEALTH_PATH, USER
from fusioninfer_pulumi.pods.records import Disaggregation, SidecarPlan
from fusioninfer_pulumi.topology.topology import Topology

#: Variable of the sidecar that holds the pods' namespace, which may be an Output.
NAMESPACE_ENV = "NAMESPACE"
#: A proxy of streams: little of anything, whatever the model is.
REQUESTS = {"requests": {"cpu": "100m", "memory": "128Mi"}}
_SECURE = "--secure-proxy"


def own_sidecar(template: Mapping[str, Any], serving: str, port: int) -> str | None:
    """Finds a sidecar that the user brought.

    Args:
        template: The leaders' pod template.
        serving: Name of the serving container.
        port: The pool's port.

    Returns:
        Name of a container that is a known sidecar, or that listens on the pool's port; None when
        there is none.
    """
    spec = template.get("spec") or {}
    beside = [each for each in spec.get("containers") or () if each.get("name") != serving]
    # An init container that ends before the engine starts listens on nothing.
    beside += [
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    ]
    for container in beside:
        ports = [each.get("containerPort") for each in container.get("ports") or ()]
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        texts = [word for word in words if isinstance(word, str)]
        listens = port in ports or integer(flag_value(texts, "--port")) == port
        if sidecar.is_sidecar(container) or listens:
            return str(container["name"])
    return None


def sidecar_plan(
    given: SidecarArgs,
    disaggregation: Disaggregation,
    command: EngineCommand,
    setup: KvConnector | None,
    template: Mapping[str, Any],
    ports: tuple[int, int],
    at: str,
) -> tuple[SidecarPlan, list[Finding]]:
    """Plans the sidecar.

    Args:
        given: What the user said of it.
        disaggregation: The service's pairing.
        command: The engine's command line.
        setup: How the engine hands its KV cache over.
        template: The leaders' pod template.
        ports: The pool's port and the engine's.
        at: Field of the sidecar, for findings.

    Returns:
        The plan, and what is to be said.
    """
    found: list[Finding] = []
    family = sidecar.sidecar_family(given.image, given.family, disaggregation.family)
    if isinstance(family, Finding):
        found.append(family.under(*parse_path(at)))
        family = disaggregation.family
    release = sidecar.sidecar_release(family)
    assert release is not None, "only families with a sidecar are wired"
    own_image = given.image is not None and sidecar.is_unknown(given.image)
    found += [
        each.under(*parse_path(at), "args")
        for each in sidecar.check_sidecar_args(given.args or (), family, own_image=own_image)
    ]
    protocol, said = _protocol(given, family, release, command, setup, at)
    found += said
    own = tuple(given.args or ())
    secure = has_flag(own, _SECURE) and flag_value(own, _SECURE) != "false"
    listen, engine = ports
    arguments = [
        f"--port={listen}",
        f"--{release.port_flag}={engine}",
        f"--kv-connector={protocol}",
    ]
    if not has_flag(own, _SECURE):
        # Its default is true, and neither gateway nor picker speak TLS to the pods of a pool.
        arguments.append(f"{_SECURE}=false")
    arguments += _tls(disaggregation, command)
    account = None
    stated = (template.get("spec") or {}).get("serviceAccountName")
    if given.ssrf_protection:
        account = stated or names.sidecar(disaggregation.service)
        pool = names.inference_pool(disaggregation.service)
        arguments += [
            "--enable-ssrf-protection=true",
            f"--inference-pool=$({NAMESPACE_ENV})/{pool}",
        ]
    plan = SidecarPlan(
        image=given.image or family.sidecar_image,
        arguments=(*arguments, *own),
        port=listen,
        https=secure,
        resources=given.resources if given.resources is not None else REQUESTS,
        account=account,
        own_account=bool(stated),
    )
    return plan, [*found, *_advice(disaggregation, secure=secure, own=own, at=at)]


def _protocol(
    given: SidecarArgs,
    family: PickerFamily,
    release: sidecar.SidecarRelease,
    command: EngineCommand,
    setup: KvConnector | None,
    at: str,
) -> tuple[str, list[Finding]]:
    at = f"{at}.connector"
    chosen = given.connector.value if given.connector is not None else None
    if chosen is None and command.engine is not None:
        chosen = command.engine.sidecar_protocol
    if chosen is None and setup is not None:
        chosen = sidecar.protocol(setup.names)
        if chosen is None:
            message = (
                f"no protocol of the sidecar is known to fit {setup.name}, so it speaks "
                f"{release.connectors[0]}; choose one of {', '.join(release.connectors)}"
            )
            return release.connectors[0], [warning(at, message)]
    chosen = chosen or release.connectors[0]
    if chosen not in release.connectors:
        message = (
            f"the sidecar of {family.name} does not speak {chosen}, only "
            f"{', '.join(release.connectors)}"
        )
        return chosen, [error(at, message)]
    return chosen, []


def _tls(disaggregation: Disaggregation, command: EngineCommand) -> list[str]:
    decode = command.serves_https
    stages = ["prefiller"] * disaggregation.prefill_https + ["decoder"] * decode
    flags = [f"--enable-tls={','.join(stages)}"] if stages else []
    # On the pod's own loopback there is nobody to be taken for somebody else.
    return [*flags, "--tls-insecure-skip-verify=decoder"] if decode else flags


def _advice(
    disaggregation: Disaggregation, *, secure: bool, own: tuple[str, ...], at: str
) -> Iterator[Finding]:
    if secure:
        yield warning(
            f"{at}.args",
            "--secure-proxy serves HTTPS on the pool's port, but gateway and picker speak plain "
            "HTTP to the pods of a pool",
        )
    if disaggregation.prefill_https and not has_flag(own, "--tls-insecure-skip-verify"):
        yield info(
            f"{at}.args",
            "prefill pods serve HTTPS: their certificates must hold for their addresses, or add "
            "--tls-insecure-skip-verify=prefiller",
        )


Manifest = dict[str, Any]

#: Name of the sidecar's container.
SIDECAR = "pd-sidecar"
# Where every container finds the token of the pod's ServiceAccount, unless something else is
# mounted there (the ServiceAccount admission plugin's DefaultAPITokenMountPath).
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a folder
_NO_TOKEN = "no-token"  # noqa: S105  # a volume
_TOKEN = "sidecar-token"  # noqa: S105  # a volume
_TOKEN_SECONDS = 3607  # as in the volume that the API server would add


def with_sidecar(spec: Manifest, sidecar: SidecarPlan) -> Manifest:
    """Adds the sidecar to a leader's pod spec.

    Args:
        spec: The pod spec; it is not changed.
        sidecar: The sidecar. It stands last, so that nothing starts before the model is loaded
            that other init containers bring; as an init container that goes on, it ends only
            after the engine has answered what was under way.
    """
    built = dict(spec)
    mounts: list[Manifest] = []
    token = _token(spec, sidecar)
    if token is not None:
        mounts = [{"name": token["name"], "mountPath": _TOKEN_PATH, "readOnly": True}]
        built["volumes"] = [*(spec.get("volumes") or ()), token]
    if sidecar.account is not None and not sidecar.own_account:
        built["serviceAccountName"] = sidecar.account
        # The account is the sidecar's, so its token is mounted there alone.
        built["automountServiceAccountToken"] = False
    built["initContainers"] = [
        *(spec.get("initContainers") or ()),
        _sidecar(sidecar, mounts),
    ]
    return built


def _sidecar(sidecar: SidecarPlan, mounts: list[Manifest]) -> Manifest:
    env: list[Manifest] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]
    if sidecar.account is not None:
        field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
        env.append({"name": NAMESPACE_ENV, "valueFrom": field})
    scheme = {"scheme": "HTTPS"} if sidecar.https else {}
    return {
        "name": SIDECAR,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "args": list(sidecar.arguments),
        "env": env,
        "ports": [{"name": names.SIDECAR_PORT, "containerPort": sidecar.port}],
        # Says that it listens; whether the engine behind it serves is the engine's to say.
        "readinessProbe": {
            "httpGet": {"path": HEALTH_PATH, "port": sidecar.port, **scheme},
            "periodSeconds": 10,
        },
        "resources": dict(sidecar.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            # Stated, because a pod that runs its engine as root would pass that on.
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _token(spec: Mapping[str, Any], sidecar: SidecarPlan) -> Manifest | None:
    """What the sidecar finds where a ServiceAccount's token would be.

    A token of its own if it uses one, as the API server would mount it. Else an empty volume: an
    account's token is mounted into every container, wherever nothing else is.
    """
    if sidecar.account is None:
        if spec.get("automountServiceAccountToken") is False:
            return None
        return {"name": free_name(_NO_TOKEN, spec.get("volumes")), "emptyDir": {}}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": root},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": free_name(_TOKEN, spec.get("volumes")), "projected": {"sources": sources}}


_GROUP = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]


def sidecar_access(plan: Topology) -> Iterator[dict[str, Any]]:
    """Builds a ServiceAccount, a Role and its RoleBinding, if any sidecar uses them.

    A template's own ServiceAccount is bound in place of ours. A sidecar watches the service's pool
    and the pods that it selects (`pkg/sidecar/proxy/allowlist.go`).
    """
    sidecars = [
        role.wiring.sidecar
        for role in plan.roles
        if role.replicas and role.wiring is not None and role.wiring.sidecar is not None
    ]
    used = {each.account: each.own_account for each in sidecars if each.account is not None}
    if not used:
        return
    name = names.sidecar(plan.service)
    own = {labels.SERVICE: plan.service}
    if not used.get(name, True):
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(plan, name, own),
            "automountServiceAccountToken": False,
        }
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": metadata(plan, name, own),
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
            {"apiGroups": [names.POOL_GROUP], "resources": ["inferencepools"], "verbs": _READ},
        ],
    }
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(plan, name, own),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account, "namespace": plan.namespace}
            for account in sorted(used)
        ],
    }
