"""Rules that several modules of the package check."""

from fusioninfer_pulumi.findings import Rule

POOL_PODS_SERVE_HTTPS = Rule(
    "pool-pods-serve-https",
    "warning",
    "The pods behind a route serve plain HTTP.",
    remedy="End TLS at the Gateway; remove `--secure-proxy`.",
)


ROUTE_WITHOUT_GATEWAY = Rule(
    "route-without-gateway",
    "warning",
    "A route attaches to a Gateway, and to the service's own if it has one.",
    remedy="Name the Gateway in `parentRefs` or `gateway.refs`.",
)
SERVING_PORTS_DIFFER = Rule(
    "serving-ports-differ",
    ("warning", "error"),
    "The roles behind one Service or pool serve on the same ports.",
    remedy="Give them the same ports.",
)
