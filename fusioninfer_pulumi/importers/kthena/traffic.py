"""A ModelServer's traffic policy, as far as HTTPRoutes can express it."""

from __future__ import annotations

from fusioninfer_pulumi.importers.kthena.servers import Server


def say_traffic(server: Server) -> None:
    """Says what becomes of timeout and retries, which are written into the rules of the route."""
    policy, carrier = server.spec.traffic_policy, server.serving.carrier
    if policy is None:
        return
    if carrier.held((*server.router, "httproute", "routedBy")) is not None:
        # Its requests go by another service's rule, which has been compared.
        carrier.book.read(server.document.at("spec", "trafficPolicy"))
        return
    book, at = carrier.book, server.document.at("spec", "trafficPolicy")
    routed = carrier.held((*server.router, "httproute", "rules")) is not None
    for field, given in (("timeout", policy.timeout), ("retry", policy.retry)):
        if given is not None and not routed:
            book.lost(
                at / field, "there is no route to write it into; read its ModelRoute together"
            )
    if policy.timeout is not None and routed:
        book.warn(
            at / "timeout",
            f"{policy.timeout} bounds whole answers in an HTTPRoute, streams too (backendRequest); "
            "Kthena's ends with the first byte",
        )
    if policy.retry is not None and routed:
        book.warn(
            at / "retry",
            "stands in the experimental channel of the Gateway API: its standard CRDs refuse it",
        )
    book.read(at)
