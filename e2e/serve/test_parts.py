"""What the serving cluster is made of, as far as it can be seen without running a pod."""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.inputs import ROOT
from e2e.serve.counters import counter
from e2e.serve.enclosure import PRIVATE, run
from e2e.serve.engine import requirements
from e2e.serve.gateway import DESTINATION, Certificate, bootstrap
from e2e.serve.images import Image, full_name, names, write_archive
from e2e.serve.load import Answer, figures, outage
from e2e.serve.node import stuck
from e2e.serve.prerequisites import TOOLS, missing_host
from e2e.serve.services import objects_of, role, router, service


def envoy(
    failure_mode: str = "FailOpen",
    *,
    secure: bool = True,
    certificate: Certificate | None = None,
    **rule: Any,
) -> Any:
    objects = objects_of(service("ns", router(), role()))
    (route,) = (manifest for manifest in objects if manifest["kind"] == "HTTPRoute")
    (pool,) = (manifest for manifest in objects if manifest["kind"] == "InferencePool")
    pool["spec"]["endpointPickerRef"]["failureMode"] = failure_mode
    route["spec"]["rules"][0].update(rule)
    addresses = ("10.96.0.9", 9002), ("127.0.0.1", 1), ("127.0.0.1", 2)
    settings = bootstrap(route, pool, *addresses, secure=secure, certificate=certificate)
    return settings["static_resources"]


def manager(settings: Any) -> Any:
    (listener,) = settings["listeners"]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]


def test_envoy_follows_picker() -> None:
    settings = envoy()
    picked, picker = settings["clusters"]
    assert picked["original_dst_lb_config"]["http_header_name"] == DESTINATION
    endpoint = picker["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint["address"]["socket_address"] == {"address": "10.96.0.9", "port_value": 9002}
    processor = manager(settings)["http_filters"][0]["typed_config"]
    assert processor["failure_mode_allow"] is True
    closed = manager(envoy("FailClose"))["http_filters"][0]["typed_config"]
    assert closed["failure_mode_allow"] is False


def test_envoy_follows_the_route() -> None:
    match = {"path": {"type": "Exact", "value": "/v1/completions"}}
    settings = envoy(matches=[match], timeouts={"request": "30s"})
    (host,) = manager(settings)["route_config"]["virtual_hosts"]
    assert "svc.example.com" in host["domains"]
    assert host["routes"] == [
        {"match": {"path": "/v1/completions"}, "route": {"cluster": "picked", "timeout": "30s"}}
    ]
    with pytest.raises(ValueError, match="only paths are translated"):
        envoy(matches=[{"headers": [{"name": "a", "value": "b"}]}])


def test_envoy_has_pods_if_it_may_choose() -> None:
    objects = objects_of(service("ns", router(), role()))
    (route,) = (manifest for manifest in objects if manifest["kind"] == "HTTPRoute")
    (pool,) = (manifest for manifest in objects if manifest["kind"] == "InferencePool")
    addresses = ("10.96.0.9", 9002), ("127.0.0.1", 1), ("127.0.0.1", 2)
    made = bootstrap(route, pool, *addresses, secure=True, pods=[("10.244.0.7", 8000)])
    picked, _ = made["static_resources"]["clusters"]
    (policy,) = picked["load_balancing_policy"]["policies"]
    settings = policy["typed_extension_config"]["typed_config"]
    assert settings["override_host_sources"] == [{"header": DESTINATION}]
    (endpoint,) = picked["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint["endpoint"]["address"]["socket_address"]["address"] == "10.244.0.7"


def test_envoy_uses_tls_if_picker_does() -> None:
    assert "transport_socket" in envoy(secure=True)["clusters"][1]
    assert "transport_socket" not in envoy(secure=False)["clusters"][1]


def test_envoy_shows_the_certificate_of_the_listener() -> None:
    assert "transport_socket" not in envoy()["listeners"][0]["filter_chains"][0]
    shown = envoy(certificate=Certificate("chain", "key"))["listeners"][0]["filter_chains"][0]
    context = shown["transport_socket"]["typed_config"]["common_tls_context"]
    assert context["tls_certificates"] == [
        {"certificate_chain": {"inline_string": "chain"}, "private_key": {"inline_string": "key"}}
    ]


def test_wheels_need_standard_torch() -> None:
    metadata = (
        "Requires-Dist: torch==2.13.0+cpu; platform_machine == 'x86_64'\n"
        "Requires-Dist: numpy\nRequires-Dist: pandas; extra == 'bench'\n"
    )
    assert requirements(metadata) == ["torch==2.13.0; platform_machine == 'x86_64'", "numpy"]


def test_archive_has_its_images(tmp_path: Path) -> None:
    images = {"a/b:1": Image(["run"], {"KEY": "value"}, scripts={"opt/run": "#!/bin/sh\n"})}
    with tarfile.open(write_archive(tmp_path / "images.tar", images)) as archive:

        def read(name: str) -> Any:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        def blob(described: Any) -> Any:
            return read(f"blobs/{described['digest'].replace(':', '/')}")

        (entry,) = json.loads(read("index.json"))["manifests"]
        assert entry["annotations"] == {"io.containerd.image.name": "docker.io/a/b:1"}
        manifest = json.loads(blob(entry))
        config = json.loads(blob(manifest["config"]))["config"]
        assert (config["Entrypoint"], config["Env"]) == (["run"], ["KEY=value"])
        assert b"#!/bin/sh" in blob(manifest["layers"][0])


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("engine:1", "docker.io/library/engine:1"),
        ("vllm/vllm-openai:v1", "docker.io/vllm/vllm-openai:v1"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        ("localhost/b:1", "localhost/b:1"),
    ],
)
def test_images_have_a_registry(name: str, full: str) -> None:
    assert full_name(name) == full


def test_images_of_pods_are_found() -> None:
    objects = objects_of(service("ns", router(), role()))
    assert names(objects) == {
        "vllm/vllm-openai:v0.32.0",
        "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1",
    }


def test_container_that_does_not_start_is_reported() -> None:
    def pod(reason: str) -> Any:
        state = {"waiting": {"reason": reason}}
        return {
            "metadata": {"name": "p"},
            "status": {"containerStatuses": [{"name": "vllm", "state": state}]},
        }

    assert stuck([pod("ContainerCreating")]) == []
    assert stuck([pod("CrashLoopBackOff")]) == ["p/vllm: CrashLoopBackOff"]


def test_counters_are_sums_over_labels() -> None:
    text = 'a_total{source="x",engine="0"} 2.0\na_total{source="y",engine="0"} 3.0\na_totals 9\n'
    assert counter(text, "a_total") == 5
    assert counter(text, "a_total", source="y") == 3
    assert counter(text, "absent") == 0


def test_outage_has_reasons_and_length() -> None:
    answers = [Answer(10, 0.1, seconds=0.2), Answer(11, 1.0, "503: no", seconds=1.0),
               Answer(14, 2.5, "503: no", seconds=2.5)]  # fmt: skip
    assert outage(answers) == "2 of 3 failed within 5.5 s: 2 x 503: no"
    assert outage(answers[:1]) == "no request failed"


def test_figures_count_failures() -> None:
    answers = [Answer(0, 0.1), Answer(0, 0.3), Answer(0, 9.0, "503: no")]
    assert figures(answers).startswith("3 requests, 1 failed; time to the first token: median 0.20")


def test_make_builds_required_components() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^SERVE_TOOLS := (.+)$", makefile, re.MULTILINE)
    assert sorted(line.split()) == sorted(TOOLS)


REASONS = missing_host()
WRITES = """\
from e2e.serve import enclosure
enclosure.prepare(["10.90.0.9"], [])
for folder in enclosure.PRIVATE:
    (folder / "of-the-run").touch()
"""


@pytest.mark.skipif(bool(REASONS), reason="; ".join(REASONS))
@pytest.mark.parametrize("code", [0, 3])
def test_an_enclosure_leaves_no_files(code: int) -> None:
    before = {folder for folder in PRIVATE if folder.exists()}
    assert run([sys.executable, "-c", f"{WRITES}raise SystemExit({code})"]) == code
    assert not [folder for folder in PRIVATE if (folder / "of-the-run").exists()]
    assert {folder for folder in PRIVATE if folder.exists()} == before
