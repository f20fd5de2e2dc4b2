"""Plans and adds the sidecar of a decode pod, and builds its RBAC objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.kv_cache import SidecarArgs
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    PROTOCOLS,
    SIDECAR_HEALTH_PATH,
    SIDECAR_USER,
    EppFamily,
    choose_sidecar_family,
    find_sidecar_image_family,
    find_sidecar_protocol,
    is_sidecar,
)
from fusioninfer_pulumi.engines.command_flags import get_flag_value, has_flag, parse_integer
from fusioninfer_pulumi.engines.engine import EngineCommand, KvConnector
from fusioninfer_pulumi.engines.engine_presets import get_edition_defaults
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.containers import (
    build_field_variable,
    build_security_context,
    choose_free_name,
    use_mirror,
)
from fusioninfer_pulumi.kube.object_metadata import (
    READ,
    Manifest,
    ServiceMeta,
    build_role_and_binding,
    build_service_account,
)
from fusioninfer_pulumi.pods.pod import Context, RolePods, SidecarPlan

SIDECAR_PROTOCOL = Rule("sidecar-protocol")
#: Variable of the sidecar that holds the pods' namespace, which may be an Output.
NAMESPACE_ENV = "NAMESPACE"
#: The sidecar needs little, because it only proxies streams.
DEFAULT_RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}}
_SECURE = "--secure-proxy"
# Flag of the sidecar with the number of its consecutive ports, one for each rank.
_RANKS = "--data-parallel-size"


def find_user_sidecar(template: Mapping[str, Any], serving_name: str, port: int) -> str | None:
    """Return the name of the sidecar in the user's template, or None if there is none.

    A container other than `serving_name` is the sidecar if it has a known name or image, or
    listens on the pool's `port`.
    """
    spec = template.get("spec") or {}
    candidates = [
        container
        for container in spec.get("containers") or ()
        if container.get("name") != serving_name
    ]
    # An init container without restartPolicy Always exits before the engine starts.
    candidates += [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in candidates:
        ports = [entry.get("containerPort") for entry in container.get("ports") or ()]
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        texts = [word for word in words if isinstance(word, str)]
        listens = port in ports or parse_integer(get_flag_value(texts, "--port")) == port
        if is_sidecar(container) or listens:
            return str(container["name"])
    return None


def plan_sidecar(
    args: SidecarArgs,
    ctx: Context,
    command: EngineCommand,
    connector: KvConnector | None,
    spec: Mapping[str, Any],
    ports: tuple[int, int],
) -> tuple[SidecarPlan, list[Finding]]:
    """Plan the sidecar of a decode role.

    `connector` is the engine's KV connector, `spec` the leader's pod spec, and `ports` are the
    pool's port and the engine's.
    """
    pool_port, engine_port = ports
    pd_settings, location = ctx.pd_settings, ctx.locate("kvTransfer", "sidecar")
    assert pd_settings is not None, "only prefill/decode roles have a sidecar"
    findings: list[Finding] = []
    family = choose_sidecar_family(args.image, args.family, pd_settings.family)
    if isinstance(family, Finding):
        findings.append(family.with_prefix(*location))
        family = pd_settings.family
    protocol, problems = _choose_protocol(
        args, family, command, connector, (*location, "connector")
    )
    findings += problems
    user_args = tuple(args.args or ())
    serves_https = has_flag(user_args, _SECURE) and get_flag_value(user_args, _SECURE) != "false"
    arguments = [
        f"--port={pool_port}",
        f"--{family.sidecar_port_flag}={engine_port}",
        f"--kv-connector={protocol}",
    ]
    if not has_flag(user_args, _SECURE):
        # By default the flag is true, but neither gateways nor endpoint pickers use TLS to pods.
        arguments.append(f"{_SECURE}=false")
    port_count = command.port_count
    user_port_count = parse_integer(get_flag_value(user_args, _RANKS))
    if port_count > 1 and user_port_count is None:
        arguments.append(f"{_RANKS}={port_count}")
    uses_tls = {"prefiller": pd_settings.prefill_serves_https, "decoder": command.serves_https}
    if any(uses_tls.values()):
        tls_roles = ",".join(name for name, enabled in uses_tls.items() if enabled)
        arguments.append(f"--enable-tls={tls_roles}")
    if command.serves_https:
        # The connection does not leave the pod, so no other host can impersonate the engine.
        arguments.append("--tls-insecure-skip-verify=decoder")
    account = None
    user_account = spec.get("serviceAccountName")
    if family.sidecar_reads_pool and args.ssrf_protection is not False:
        account = user_account or object_names.sidecar(ctx.meta.service)
        pool = object_names.inference_pool(ctx.meta.service)
        arguments += [
            "--enable-ssrf-protection=true",
            f"--inference-pool=$({NAMESPACE_ENV})/{pool}",
        ]
    default_image = get_edition_defaults(ctx.args.edition).sidecar
    if find_sidecar_image_family(default_image) is not family:
        default_image = str(family.sidecar_image)
    plan = SidecarPlan(
        image=args.image or use_mirror(default_image, ctx.args.image_registry),
        arguments=(*arguments, *user_args),
        ports=range(pool_port, pool_port + (user_port_count or port_count)),
        serves_https=serves_https,
        resources=args.resources if args.resources is not None else DEFAULT_RESOURCES,
        account=account,
        is_user_account=bool(user_account),
        family=family,
    )
    return plan, findings


def _choose_protocol(
    args: SidecarArgs,
    family: EppFamily,
    command: EngineCommand,
    connector: KvConnector | None,
    location: Location,
) -> tuple[str, list[Finding]]:
    """Return the value of the sidecar's flag `--kv-connector`."""
    supported = family.sidecar_connectors
    default = supported[0]
    protocol = args.connector.value if args.connector is not None else None
    if protocol is None and command.engine is not None:
        protocol = command.engine.kv_cache.sidecar_protocol
    if protocol is None and connector is not None:
        protocol = find_sidecar_protocol(connector.names)
        if protocol is None:
            meant = next(
                (name for name in PROTOCOLS if name.lower().startswith(connector.name.lower())),
                None,
            )
            message = (
                f'the protocol of connector "{connector.name}" is unknown, so {default} is used; '
                f"set it to one of {', '.join(supported)}"
            )
            if meant is not None:
                # `kvTransfer.connector` is wrong, not `kvTransfer.sidecar.connector`.
                location = (*location[:-2], "connector")
                message = f'unknown connector "{connector.name}"; did you mean {meant}?'
            return default, [warning(SIDECAR_PROTOCOL, location, message)]
    protocol = protocol or default
    if protocol not in supported:
        message = f"must be one of {', '.join(supported)} with {family.name}, got {protocol}"
        return protocol, [error(SIDECAR_PROTOCOL, location, message)]
    return protocol, []


#: Name of the sidecar's container.
SIDECAR = "pd-sidecar"
# Directory at which the API server mounts the ServiceAccount's token, unless the container has
# another mount there (the ServiceAccount admission plugin's DefaultAPITokenMountPath).
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a directory
_NO_TOKEN = "no-token"  # noqa: S105  # a volume
_TOKEN = "sidecar-token"  # noqa: S105  # a volume
_TOKEN_SECONDS = 3607  # as in the volume that the API server would add


def add_sidecar(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add the sidecar to the leader.

    The sidecar is the last init container, so init containers that download the model finish first.
    It is a native sidecar, so it ends only after the engine has finished its running requests.
    """
    plan = pods.kv.sidecar if pods.kv is not None else None
    if plan is None:
        return pods, []
    leader = pods.leader
    mounts: list[Manifest] = []
    volume = _build_token_volume(leader.spec, plan)
    if volume is not None:
        leader = leader.add_volumes([volume])
        mounts = [{"name": volume["name"], "mountPath": _TOKEN_PATH, "readOnly": True}]
    if plan.account is not None and not plan.is_user_account:
        # Only the sidecar uses the account, so no other container receives its token.
        leader = leader.with_spec(
            serviceAccountName=plan.account, automountServiceAccountToken=False
        )
    container = _build_container(plan, mounts)
    leader = leader.append("initContainers", [container], ctx.locate("kvTransfer", "sidecar"))
    return pods.with_pod(leader), []


def _build_container(plan: SidecarPlan, mounts: list[Manifest]) -> Manifest:
    env = [build_field_variable("POD_IP", "status.podIP")]
    if plan.account is not None:
        env.append(build_field_variable(NAMESPACE_ENV, "metadata.namespace"))
    scheme = {"scheme": "HTTPS"} if plan.serves_https else {}
    return {
        "name": SIDECAR,
        "image": plan.image,
        "restartPolicy": "Always",
        "args": list(plan.arguments),
        "env": env,
        "ports": [
            {"name": object_names.SIDECAR_PORT, "containerPort": plan.ports[0]},
            *({"containerPort": port} for port in plan.ports[1:]),
        ],
        # The probe only checks that the sidecar listens. The engine has its own probe.
        "readinessProbe": {
            "httpGet": {"path": SIDECAR_HEALTH_PATH, "port": plan.ports[0], **scheme},
            "periodSeconds": 10,
        },
        "resources": dict(plan.resources),
        "securityContext": build_security_context(SIDECAR_USER, readOnlyRootFilesystem=True),
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _build_token_volume(spec: Mapping[str, Any], plan: SidecarPlan) -> Manifest | None:
    """Return the volume at the ServiceAccount token's path in the sidecar.

    If the sidecar needs a token, the volume is a projected one like the API server's. If not, the
    volume is empty, because the API server mounts the token into every container that has no volume
    at this path. If the pod disables these mounts, no empty volume is needed, and the result is
    None.
    """
    if plan.account is None:
        if spec.get("automountServiceAccountToken") is False:
            return None
        return {"name": choose_free_name(_NO_TOKEN, spec.get("volumes")), "emptyDir": {}}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": root},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {
        "name": choose_free_name(_TOKEN, spec.get("volumes")),
        "projected": {"sources": sources},
    }


def build_sidecar_access(meta: ServiceMeta, sidecars: Iterable[SidecarPlan]) -> Iterator[Manifest]:
    """Build a Role, its RoleBinding and, unless the user has one, a ServiceAccount for sidecars.

    A sidecar watches its pool and the pool's pods (`pkg/sidecar/proxy/allowlist.go`).
    """
    # Names of ServiceAccounts, and whether they are the user's.
    accounts = {
        sidecar.account: sidecar.is_user_account
        for sidecar in sidecars
        if sidecar.account is not None
    }
    if not accounts:
        return
    name, service_label = object_names.sidecar(meta.service), {labels.SERVICE: meta.service}
    if accounts.get(name) is False:
        yield build_service_account(meta, name, service_label)
    rules = [("", ["pods"], READ), (object_names.POOL_GROUP, ["inferencepools"], READ)]
    yield from build_role_and_binding(meta, name, rules, list(accounts), service_label)
