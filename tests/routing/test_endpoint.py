"""The endpoint's URL, derived from host names and listeners."""

from __future__ import annotations

from gateways import HTTP, HTTPS, managed, open_to, referenced
from routed import ROUTE, routed
from rows import each_row
from samples import Manifest, plan_of

from fusioninfer_pulumi.routing.endpoint import find_endpoint


def endpoint(manifest: Manifest) -> str | None:
    plan = plan_of(manifest)
    assert plan.routing is not None
    result = find_endpoint(plan.routing)
    if result is None:
        return None
    return result.format_url("<address>" if result.host is None else result.host)


ENDPOINTS: dict[str, tuple[Manifest, str | None]] = {
    "a host name": (managed(), "http://svc.example.com"),
    "TLS": (managed(HTTPS), "https://svc.example.com"),
    "TLS before plain": (managed(HTTP, HTTPS), "https://svc.example.com"),
    "an unusual port": (managed({**HTTP, "port": 8080}), "http://svc.example.com:8080"),
    "TLS on an unusual port": (managed({**HTTPS, "port": 8443}), "https://svc.example.com:8443"),
    "TLS of another host": (
        managed(HTTP, {**HTTPS, "hostname": "b.example.com"}), "http://svc.example.com",
    ),
    "TLS of all hosts": (
        managed(HTTP, {**HTTPS, "hostname": "*.example.com"}), "https://svc.example.com",
    ),
    "the first name that is a host": (
        managed(httproute={"hostnames": ["*.example.com", "a.example.com", "b.example.com"]}),
        "http://a.example.com",
    ),
    "the name of a listener": (
        managed(HTTP, {**HTTPS, "hostname": "l.example.com"}, httproute=None),
        "https://l.example.com",
    ),
    "an address": (managed(HTTPS, httproute=None), "https://<address>"),
    "an address, for a wildcard": (
        managed(httproute={"hostnames": ["*.example.com"]}), "http://<address>",
    ),
    "a known listener elsewhere": (referenced(open_to("All", **HTTPS)), "https://svc.example.com"),
    "unknown listeners": (routed(), "http://svc.example.com"),
    "unknown listeners, the port of TLS": (
        routed(httproute={**ROUTE, "parentRefs": [{"name": "g", "port": 443}]}),
        "https://svc.example.com",
    ),
    "unknown listeners, another port": (
        routed(httproute={**ROUTE, "parentRefs": [{"name": "g", "port": 8080}]}),
        "http://svc.example.com:8080",
    ),
    "nothing that tells": (routed(httproute={"parentRefs": [{"name": "g"}]}), None),
    "no route": (routed(httproute=None), None),
}  # fmt: skip


@each_row("case", ENDPOINTS)
def test_endpoint_is_derived_from_hosts_and_listeners(case: str) -> None:
    manifest, url = ENDPOINTS[case]
    assert endpoint(manifest) == url


def test_address_of_a_gateway_is_read_from_its_status() -> None:
    plan = plan_of(managed(httproute=None))
    assert plan.routing is not None
    result = find_endpoint(plan.routing)
    assert result is not None
    assert result.format_gateway_url(None) == ""
    assert result.format_gateway_url({"addresses": []}) == ""
    assert result.format_gateway_url({"addresses": [{"value": "192.0.2.1"}]}) == "http://192.0.2.1"
    ipv6 = {"addresses": [{"value": "2001:db8::1"}]}
    assert result.format_gateway_url(ipv6) == "http://[2001:db8::1]"
