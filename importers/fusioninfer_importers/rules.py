"""Rules that several importers hold."""

from fusioninfer_pulumi.plugins.importers import Rule

DOCUMENT_UNUSED = Rule(
    "document-unused",
    "warning",
    "A document of another system says something about a service of the input.",
    remedy="Remove it, or read the service's documents together.",
)
GATEWAY_DEFAULTED = Rule(
    "gateway-defaulted",
    "info",
    "Without a Gateway the route attaches to KServe's.",
    remedy="Nothing.",
)
LEADS_TO_NO_SERVICE = Rule(
    "leads-to-no-service",
    "info",
    "A route or server leads to a service.",
    remedy="Nothing: it is left out.",
)
SEVERAL_PROMETHEUS_SERVERS = Rule(
    "several-prometheus-servers",
    "error",
    "All queries go to one Prometheus.",
    remedy="Use one address.",
)
SINGLE_TARGET_WEIGHT = Rule(
    "single-target-weight",
    "info",
    "One target gets every request, whatever its weight.",
    remedy="Nothing.",
)
TARGET_REPEATED = Rule(
    "target-repeated",
    "info",
    "A rule leads to a service once.",
    remedy="Nothing: it is left out.",
)
WORKER_TEMPLATE_MISSING = Rule(
    "worker-template-missing",
    "error",
    "A replica of several pods has a `worker`.",
    remedy="Add it.",
)
WORKER_TEMPLATE_UNUSED = Rule(
    "worker-template-unused",
    "info",
    "A replica of one pod has no `worker`.",
    remedy="Nothing.",
)
