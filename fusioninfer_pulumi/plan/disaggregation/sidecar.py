"""Plans the sidecar of a decode role's leaders, or finds the one that the user brought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer
from fusioninfer_pulumi.engines.kv_connectors import KvSetup
from fusioninfer_pulumi.findings import Finding, error, info, parse_path, warning
from fusioninfer_pulumi.pickers import sidecar
from fusioninfer_pulumi.pickers.family import PickerFamily
from fusioninfer_pulumi.plan.disaggregation.records import Disaggregation, SidecarPlan
from fusioninfer_pulumi.spec.kv_transfer import SidecarArgs

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
    setup: KvSetup | None,
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
        found.append(replace(family, location=parse_path(f"{at}.{family.path}")))
        family = disaggregation.family
    release = sidecar.sidecar_release(family)
    assert release is not None, "only families with a sidecar are wired"
    own_image = given.image is not None and sidecar.is_unknown(given.image)
    found += [
        replace(each, location=parse_path(f"{at}.args{each.path}"))
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
    setup: KvSetup | None,
    at: str,
) -> tuple[str, list[Finding]]:
    at = f"{at}.connector"
    chosen = given.connector.value if given.connector is not None else None
    if chosen is None:
        chosen = "sglang" if command.engine == "sglang" else None
    if chosen is None and setup is not None:
        chosen = sidecar.protocol(setup.names)
        if chosen is None:
            message = (
                f"no protocol of the sidecar is known to fit {setup.connector}, so it speaks "
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
    decode = table.serves_https(command)
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
