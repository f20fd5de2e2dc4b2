"""What surrounds the choice: TLS to the gateway, and a picker that rejects its configuration."""

from __future__ import annotations

import socket
import ssl

import grpc
import pytest

from e2e import inputs
from e2e.harness import ProgramFailedError
from e2e.harness.processes import LOOPBACK
from e2e.routers import IMAGES, generated_picker, only
from e2e.strategies.fleet import Fleet

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))


@pytest.mark.proves("Pickers speak TLS with HTTP/2 to the gateway unless disabled")
@VERSIONS
def test_pickers_speak_tls_by_default(fleet: Fleet, version: str) -> None:
    objects = fleet.routing(version, endpointPicker={})
    unseen = ssl.create_default_context()
    unseen.check_hostname, unseen.verify_mode = False, ssl.CERT_NONE  # as gateways do
    unseen.set_alpn_protocols(["h2"])
    with fleet.run(version, objects) as picker:
        address = (LOOPBACK, picker.picker.grpc_port)
        with socket.create_connection(address, 10) as raw, unseen.wrap_socket(raw) as secured:
            assert secured.selected_alpn_protocol() == "h2"
        with pytest.raises(grpc.RpcError) as rejection:
            picker.ask()  # in plain gRPC
        assert rejection.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.proves("A picker serves the certificate of the named Secret")
@VERSIONS
def test_pickers_serve_with_a_certificate(fleet: Fleet, version: str) -> None:
    objects = fleet.routing(version, endpointPicker={"tls": {"secretName": "picker-tls"}})
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    place = container["args"].index("--cert-path=/certificate")
    # The Secret's two files, where this machine has them.
    certificates = fleet.cluster.directory / "certificates"
    container["args"][place] = f"--cert-path={certificates}"
    authority = (certificates / "ca.crt").read_bytes()
    with fleet.run(version, objects, authority) as picker:
        fleet.wait_scraped()
        assert picker.picks(30).keys() <= fleet.engines.keys()


@pytest.mark.proves("Errors about unknown plugins match what the picker reports when it exits")
@VERSIONS
def test_unknown_plugin_ends_picker(fleet: Fleet, version: str) -> None:
    objects = fleet.routing(version, strategy="queue-size")
    data = only(objects, "ConfigMap")["data"]
    (key,) = data
    data[key] = data[key].replace("queue-scorer", "queue-scorrer")
    with (
        generated_picker(fleet.cluster, version, objects) as picker,
        pytest.raises(ProgramFailedError, match=r"exited with [1-9](.|\n)*queue-scorrer"),
    ):
        picker.wait_serving()
    image = {"image": IMAGES[version]}
    manifest = fleet.manifest(endpointPicker=image, endpointPickerConfig=data[key])
    said = [str(each) for each in inputs.plan_of(manifest).findings]
    (finding,) = [each for each in said if "queue-scorrer" in each]
    assert "endpointPickerConfig.plugins[0].type" in finding
    assert "exits because of it" in finding
