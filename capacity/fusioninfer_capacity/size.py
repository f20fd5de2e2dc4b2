"""Command `size`: the layouts with which a model fits, and a manifest or program with the first."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from fusioninfer_capacity.fit.architecture import (
    Architecture,
    UnknownArchitectureError,
    find_architecture,
    load_models,
    read_config,
)
from fusioninfer_capacity.fit.engines import SIZED_ENGINES
from fusioninfer_capacity.fit.estimate import NotCoveredError
from fusioninfer_capacity.fit.load import Load
from fusioninfer_capacity.fit.roles import parse_accelerator
from fusioninfer_capacity.fit.sizing import (
    Layout,
    SizingRequest,
    add_copies,
    add_fp8_caches,
    list_layouts,
)
from fusioninfer_capacity.proposals import Proposal, find_pools, propose
from fusioninfer_capacity.size_text import name_layout, render_proposals
from fusioninfer_pulumi.plugins.capacity import (
    ENGINES,
    NIXL,
    EngineArgs,
    InvalidServiceError,
    InventoryArgs,
    ModelConfigError,
    NodePoolArgs,
    TaintEffect,
    closest_name,
    is_gated,
    load_inventory,
    parse_model_uri,
    print_service,
    print_text,
    read_model_config,
)


class SizingError(Exception):
    """The arguments of `size` are invalid; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `size`."""
    parser.add_argument("model", metavar="MODEL", help="name on Hugging Face, or a config.json")
    parser.add_argument(
        "--accelerator", required=True, help="name such as H100, or memory such as 80Gi"
    )
    parser.add_argument(
        "--inventory", metavar="POOLS", help="list only layouts that fit these node pools"
    )
    parser.add_argument(
        "--per-node", type=_parse_positive, default=8, metavar="N", help="GPUs per node; default: 8"
    )
    parser.add_argument(
        "--max-model-len",
        type=_parse_positive,
        metavar="N",
        help="tokens of the longest sequence; default: the model's maximum",
    )
    parser.add_argument(
        "--engine", choices=("vllm", "sglang"), default="vllm", help="default: vllm"
    )
    parser.add_argument(
        "--layout", metavar="NAME", help="print only this layout, such as 'TP2 x DP4+EP'"
    )
    parser.add_argument("--requests-per-second", type=_parse_rate, metavar="R", help="total load")
    parser.add_argument("--input-tokens", type=_parse_positive, metavar="I", help="per prompt")
    parser.add_argument("--output-tokens", type=_parse_positive, metavar="O", help="per answer")
    parser.add_argument("--ttft", metavar="2s", help="maximum time to first token")
    parser.add_argument("--tpot", metavar="40ms", help="maximum time per output token")
    parser.add_argument(
        "--output", choices=("text", "yaml", "python"), default="text", help="default: text"
    )


def _parse_positive(text: str) -> int:
    if re.fullmatch(r"[1-9][0-9]{0,8}", text) is None:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _parse_rate(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) is None or float(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a positive rate, got {text!r}")
    return float(text)


def size(options: argparse.Namespace) -> int:
    """Print layouts, or the first one as a manifest or a program."""
    try:
        inventory = _read_inventory(options.inventory)
        request = _read_request(options, inventory)
        load = _read_load(options)
        candidates = add_copies(request, add_fp8_caches(request, list_layouts(request)))
        candidates = _select_layout(options.layout, candidates)
        proposed = list(propose(request, candidates, inventory, load))
    except (SizingError, NotCoveredError) as exc:
        sys.stderr.write(f"fusioninfer-pulumi size: {exc}\n")
        return 2
    if options.output == "text":
        print_text(render_proposals(request, candidates, proposed, load))
        return 0 if proposed else 2
    if not proposed:
        reasons = "; ".join(
            f"{name_layout(layout)}: {layout.reason}" for layout in candidates if layout.reason
        )
        sys.stderr.write(f"fusioninfer-pulumi size: no layout fits: {reasons}\n")
        return 2
    # Prefer layouts that need neither an FP8 cache nor data parallel copies.
    simple = [proposal for proposal in proposed
              if not proposal.layout.fp8_cache and proposal.layout.copies == 1]  # fmt: skip
    print_service(build_manifest(request, (simple or proposed)[0], inventory), options.output)
    return 0


def _select_layout(name: str | None, candidates: list[Layout]) -> list[Layout]:
    """Return the layout with a name such as `TP2 x DP4+EP`; all layouts if `name` is None."""
    if name is None:
        return candidates
    by_name = {"".join(name_layout(layout).lower().split()): layout for layout in candidates}
    layout = by_name.get("".join(name.lower().split()))
    if layout is None:
        names = "; ".join(name_layout(layout) for layout in candidates)
        raise SizingError(f"--layout: unknown layout {name}; expected one of: {names}")
    return [layout]


def _read_inventory(path: str | None) -> InventoryArgs | None:
    if path is None:
        return None
    try:
        return load_inventory(path)
    except OSError as exc:
        raise SizingError(f"{path}: {exc.strerror or exc}") from None
    except InvalidServiceError as exc:
        raise SizingError(f"{path}: {exc}") from None


def _read_request(options: argparse.Namespace, inventory: InventoryArgs | None) -> SizingRequest:
    name, model = _read_model(options.model)
    accelerator = parse_accelerator(options.accelerator)
    if accelerator is None:
        raise SizingError(
            f"unknown accelerator {options.accelerator}; use a name such as H100, or a memory such "
            "as 80Gi"
        )
    pools = find_pools(inventory, accelerator.name)
    if inventory is not None and not pools:
        raise SizingError(f"no pool of {options.inventory} has {accelerator.name}")
    return SizingRequest(
        name=name,
        model=model,
        accelerator=accelerator,
        per_node=max((pool.accelerators for pool in pools), default=options.per_node),
        engine=options.engine,
        length=options.max_model_len,
    )


def _read_model(source: str) -> tuple[str, Architecture]:
    """Return the name and the architecture of a model of the table, or of a `config.json`."""
    known = find_architecture(source)
    if known is not None:
        return source, known
    if not source.endswith(".json"):
        closest = closest_name(source, load_models())
        hint = f"did you mean {closest}? Otherwise pass" if closest else "pass"
        raise SizingError(
            f"{source} is not in the table of models: {hint} the path of its config.json, as in "
            "size path/to/config.json"
        )
    try:
        config = read_model_config(source)
        name = config.get("_name_or_path") or Path(source).absolute().parent.name
        return str(name), read_config(config)
    except (ModelConfigError, UnknownArchitectureError) as exc:
        raise SizingError(f"{source}: {exc}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
        raise SizingError(f"{source} is not a supported model config") from None


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


def _read_load(options: argparse.Namespace) -> Load | None:
    required = (options.requests_per_second, options.input_tokens, options.output_tokens)
    if all(value is None for value in (*required, options.ttft, options.tpot)):
        return None
    if any(value is None for value in required):
        raise SizingError(
            "a load requires --requests-per-second, --input-tokens and --output-tokens"
        )
    return Load(
        *required, _parse_seconds("--ttft", options.ttft), _parse_seconds("--tpot", options.tpot)
    )


def _parse_seconds(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise SizingError(f"{flag} must be a time such as 2s or 40ms, got {text}")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


_GPU = "nvidia.com/gpu"


def build_manifest(
    request: SizingRequest, proposal: Proposal, inventory: InventoryArgs | None
) -> dict[str, Any]:
    """Return a manifest of a proposal."""
    name = re.sub(r"[^a-z0-9]+", "-", request.name.rpartition("/")[2].lower()).strip("-")[:40]
    name = name.strip("-") if name[:1].isalpha() else f"m-{name}"
    kinds = [("serve", "worker", proposal.replicas)]
    roles: list[dict[str, Any]] = []
    if proposal.prefillers:
        roles.append({"name": "router", "componentType": "router",
                      "strategy": "pd-disaggregation", "httproute": {}, "gateway": {}})  # fmt: skip
        kinds = [("prefill", "prefiller", proposal.prefillers),
                 ("decode", "decoder", proposal.replicas)]  # fmt: skip
    roles += [_build_role(request, proposal, inventory, *kind) for kind in kinds]
    uri = f"hf://{request.name}"
    # If the name is that of a directory, it may not be valid on Hugging Face.
    model: dict[str, Any] = {"uri": uri if parse_model_uri(uri) else f"hf://organization/{name}"}
    if is_gated(request.name):
        model["tokenSecret"] = {"name": "hugging-face", "key": "token"}
    default = request.engine == EngineArgs().name.value
    engine = {} if default else {"engine": {"name": request.engine}}
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"model": model, **engine, "roles": roles},
    }


def _build_role(
    request: SizingRequest,
    proposal: Proposal,
    inventory: InventoryArgs | None,
    name: str,
    kind: str,
    replicas: int,
) -> dict[str, Any]:
    """Return a role; its template has only what is added to the generated container."""
    layout, pool = proposal.layout, proposal.place.pool
    role: dict[str, Any] = {"name": name, "componentType": kind, "replicas": replicas}
    role["accelerator"] = request.accelerator.name
    role["parallelism"] = {"tensor": layout.tensor}
    if layout.stages > 1:
        role["parallelism"]["pipeline"] = layout.stages
    if layout.copies > 1:
        role["parallelism"]["data"] = layout.copies
        if layout.nodes > 1:
            role["parallelism"]["dataLocal"] = layout.copies // layout.nodes
    if layout.has_expert_parallelism:
        role["parallelism"]["expert"] = True
    connector = SIZED_ENGINES[request.engine].proposal.connector
    if proposal.prefillers and connector != NIXL:
        role["kvTransfer"] = {"connector": connector}
    container: dict[str, Any] = {}
    flag = ENGINES[request.engine].length_flag
    words = [flag, str(request.length)] if request.length is not None else []
    words += SIZED_ENGINES[request.engine].fp8_cache if layout.fp8_cache else ()
    if words:
        container["args"] = words
    if pool is not None and pool.resource and pool.resource != _GPU:
        container["resources"] = {"limits": {pool.resource: layout.per_pod}}
    spec: dict[str, Any] = {}
    if container:
        spec["containers"] = [{"name": request.engine, **container}]
    if pool is not None and inventory is not None:
        label = inventory.selector_label
        if label is not None:
            spec["nodeSelector"] = {label: inventory.selector_value(pool)}
        if tolerations := _build_tolerations(pool):
            spec["tolerations"] = tolerations
    if spec:
        role["template"] = {"spec": spec}
    return role


def _build_tolerations(pool: NodePoolArgs) -> list[dict[str, Any]]:
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect.value}
        for taint in pool.taints
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
    ]
