"""The Service of an InferenceService without a router."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import container, nodes, on_port, prefill_decode, rendered, role, service, template

TYPE = "fusioninfer.io/component-type"
ONLY_LEADERS = {"fusioninfer.io/service": "svc", "leaderworkerset.sigs.k8s.io/worker-index": "0"}


def spec(manifest: dict[str, Any]) -> dict[str, Any]:
    (entry,) = (item for item in rendered(manifest) if item["kind"] == "Service")
    result: dict[str, Any] = entry["spec"]
    return result


@each_row(
    ("manifest", "selected"),
    [
        (service(), {TYPE: "worker"}),
        (service(role(multinode=nodes(4))), {TYPE: "worker"}),
        (service(role("a"), role("b")), {TYPE: "worker"}),
        (service(role("a", "decoder")), {TYPE: "decoder"}),
        (service(role("a", "prefiller")), {TYPE: "prefiller"}),
        (service(role("a"), role("b", "decoder")), {}),
        (prefill_decode(), {TYPE: "decoder"}),
        (prefill_decode({"replicas": 0}), {TYPE: "decoder"}),
        (service(role("a"), role("b", "prefiller"), role("c", "decoder")), {TYPE: "decoder"}),
    ],
)
def test_service_selects_serving_leaders(
    manifest: dict[str, Any], selected: dict[str, str]
) -> None:
    assert spec(manifest)["selector"] == {**ONLY_LEADERS, **selected}


def test_service_has_the_port_of_the_serving_roles() -> None:
    decoders = template(container(args=["--model", "m", "--port", "9000"]))
    built = spec(prefill_decode({"template": on_port(7000)}, {"template": decoders}))
    assert built["ports"] == [{"name": "http", "port": 9000, "targetPort": 9000, "protocol": "TCP"}]
    assert built["type"] == "ClusterIP"
