"""Checks of a cluster's products, releases and features against the needs of services."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.checks.live_cluster import KUEUE_FRAMEWORK, ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.object_checks import find_user_field
from fusioninfer_pulumi.checks.server_dry_run import list_dry_run_objects
from fusioninfer_pulumi.findings import Location, Rule, error, warning
from fusioninfer_pulumi.kube.supported_products import (
    KUEUE,
    LEADER_WORKER_SET,
    NATIVE_GANGS,
    PRODUCTS,
    RELEASES_WITH_STALLED_STATEFULSETS,
    VOLCANO,
    Kind,
    Product,
    Release,
    find_products,
    format_release,
    parse_product_release,
)
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import (
    CRD_NOT_INSTALLED,
    FEATURE_GATE_OFF_BY_DEFAULT,
    LWS_GANG_PROVIDER_ON,
    RELEASE_NOT_SUPPORTED,
    RELEASE_UNKNOWN,
    STATEFULSET_KEEPS_BROKEN_PODS,
)

GANG_BACKEND_MISSING = Rule("gang-backend-missing")
_BACKEND = ("schedulingStrategy", "gangPolicy", "backend")
_NATIVE_VERSION = "v1beta1"
#: Annotations of CRDs with the release of their product.
_RELEASE_KEY = re.compile(r"(networking\.k8s\.io/bundle-version|operator\.prometheus\.io/version)$")


def find_product_needs(plan: ServicePlan) -> Mapping[Kind, tuple[Product, Location]]:
    """Map each kind that a service needs to its product and to the user's field that needs it.

    If more than one row of `PRODUCTS` applies to a kind, its product is the last of them.
    """
    needs: dict[Kind, tuple[Product, Location]] = {}
    for dry_run in list_dry_run_objects(plan):
        location, _ = find_user_field((), dry_run.rendered, plan)
        for product, kind in find_products(dry_run.manifest):
            recorded, first_location = needs.get(kind, (product, location))
            if PRODUCTS.index(product) >= PRODUCTS.index(recorded):
                needs[kind] = product, first_location
    if plan.picker is not None and plan.picker.epp.family.needs_inference_objective_crd:
        # No object of this kind is rendered, but the picker exits if the kind is missing.
        objective = {
            "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
            "kind": "InferenceObjective",
        }
        needs |= {kind: (product, ()) for product, kind in find_products(objective)}
    return needs


def check_apis(cluster: LiveCluster) -> ClusterFindings:
    """Yield a warning for each API that a service needs and the cluster does not serve.

    A missing API is not an error, because the same program may install it.
    """
    if not cluster.api.versions:
        return  # the credentials may not read the list of APIs
    for plan in cluster.plans:
        for kind, (product, location) in find_product_needs(plan).items():
            if not _is_served(cluster, product, kind):
                api_name, kind_name = kind
                versions = cluster.api.versions.get(product.group, ())
                missing = f"{kind_name} ({api_name})" if kind_name else api_name
                served_versions = f" (only {', '.join(versions)})" if versions else ""
                message = (
                    f"{product.name}: {missing} is not served{served_versions}; "
                    f"install {product.requirement}"
                )
                yield plan, warning(CRD_NOT_INSTALLED, location, message)


def check_releases(cluster: LiveCluster) -> ClusterFindings:
    """Yield errors about unsupported releases, and warnings about unknown releases.

    Sets `cluster.releases`.
    """
    releases: dict[Kind, Release | None] = {}
    for plan in cluster.plans:
        for kind, (product, _) in find_product_needs(plan).items():
            if product.min_release is None or not _is_served(cluster, product, kind):
                continue
            if kind not in releases:
                releases[kind] = _read_release(cluster, product, kind)
            release, remedy = releases[kind], f"install {product.requirement}"
            if release is None:
                message = f"{product.name}: cannot determine the installed release; {remedy}"
                yield plan, warning(RELEASE_UNKNOWN, (), message)
                continue
            cluster.releases[product.name] = release
            if release < product.min_release or release in product.broken:
                message = f"{product.name}: {format_release(release)} is installed; {remedy}"
                yield plan, error(RELEASE_NOT_SUPPORTED, (), message)


def _is_served(cluster: LiveCluster, product: Product, kind: Kind) -> bool:
    api_name, kind_name = kind
    if product.group not in cluster.api.versions:
        return False
    # An empty kind name means the whole API.
    return not kind_name or cluster.api.path(api_name, kind_name) is not None


def _read_release(cluster: LiveCluster, product: Product, kind: Kind) -> Release | None:
    """Return a product's release: the lowest tag of its images, or the annotation of its CRD."""
    api = cluster.api
    if not product.program:
        plural = str(api.path(*kind)).rpartition("/")[2]
        crd_name = f"{plural}.{product.group}"
        crd = api.get("apiextensions.k8s.io", "CustomResourceDefinition", None, crd_name) or {}
        annotations = (crd.get("metadata") or {}).get("annotations") or {}
        texts = (text for key, text in annotations.items() if _RELEASE_KEY.search(key))
        return parse_product_release(next(texts, ""))
    releases = []
    for deployment in (
        api.list_objects("apps/v1", "Deployment", cluster.get_namespace(product)) or ()
    ):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            image, _, _ = container["image"].partition("@")
            name, _, tag = image.rpartition("/")[2].partition(":")
            if name == product.program:
                releases.append(parse_product_release(tag))
    return min((release for release in releases if release is not None), default=None)


def _get_backend(plan: ServicePlan) -> GangBackend | None:
    """Return the gang backend that a service needs, or None if it needs none."""
    is_used = plan.gang is not None or plan.shape.local_queue is not None
    return plan.shape.backend if is_used else None


def check_gang_backends(cluster: LiveCluster) -> ClusterFindings:
    """Yield an error for each service whose gang backend is missing, if another one is installed.

    If no backend is installed, that is not an error, because the same Pulumi program may install
    one. If Kueue is installed but does not manage LeaderWorkerSets, that is an error.
    """
    versions = cluster.api.versions
    if not any(map(_get_backend, cluster.plans)):
        return
    usable_backends = [GangBackend.VOLCANO] if VOLCANO.group in versions else []
    has_kueue = KUEUE.group in versions
    if has_kueue and cluster.is_lws_managed_by_kueue is not False:
        usable_backends.append(GangBackend.KUEUE)
    if _NATIVE_VERSION in versions.get(NATIVE_GANGS.group, ()):
        usable_backends.append(GangBackend.NATIVE)
    for plan in cluster.plans:
        backend = _get_backend(plan)
        if backend is None or backend in usable_backends:
            continue
        if backend is GangBackend.KUEUE and has_kueue:
            message = (
                "Kueue does not manage LeaderWorkerSets here, and pods would start one by one; "
                f"add {KUEUE_FRAMEWORK} to integrations.frameworks in its configuration and "
                "restart its manager"
            )
            yield plan, error(GANG_BACKEND_MISSING, _BACKEND, message)
        elif usable_backends:
            message = (
                f"the cluster does not have {backend.value}; install it, or use backend "
                f"{' or '.join(item.value for item in usable_backends)}"
            )
            yield plan, error(GANG_BACKEND_MISSING, _BACKEND, message)


def check_gang_provider(cluster: LiveCluster) -> ClusterFindings:
    """Yield findings about the gang provider in the configuration of LeaderWorkerSet's manager."""
    plans = [plan for plan in cluster.plans if plan.gang is not None and not plan.gang.is_native]
    if not plans:
        return
    # The provider of each configuration; empty if it has none.
    providers: list[str] = []
    for configuration in cluster.find_configurations(LEADER_WORKER_SET, "config.lws.x-k8s.io/"):
        management = configuration.get("gangSchedulingManagement") or {}
        if isinstance(management, Mapping):
            providers.append(str(management.get("schedulerProvider") or ""))
    if not providers:
        message = (
            "LeaderWorkerSet: its configuration was not found in namespace "
            f"{cluster.get_namespace(LEADER_WORKER_SET)}; make sure that it does not set "
            "gangSchedulingManagement"
        )
        yield None, warning(RELEASE_UNKNOWN, (), message)
    elif provider := max(providers):  # an empty text is less than any other
        message = (
            f"LeaderWorkerSet: its own gang provider is on (gangSchedulingManagement."
            f"schedulerProvider: {provider}) and would overwrite the PodGroup of every pod; remove "
            "gangSchedulingManagement from its configuration and restart its manager"
        )
        for plan in plans:
            yield plan, error(LWS_GANG_PROVIDER_ON, (), message)


def check_kueue_configuration(cluster: LiveCluster) -> ClusterFindings:
    """Yield a warning if services need Kueue and its manager's configuration is unknown."""
    is_needed = any(plan.shape.local_queue is not None for plan in cluster.plans)
    is_installed = KUEUE.group in cluster.api.versions
    if is_needed and is_installed and cluster.is_lws_managed_by_kueue is None:
        message = (
            f"Kueue: its configuration was not found in namespace {cluster.get_namespace(KUEUE)}; "
            f"integrations.frameworks must contain {KUEUE_FRAMEWORK}"
        )
        yield None, warning(RELEASE_UNKNOWN, (), message)


def check_kubernetes(cluster: LiveCluster) -> ClusterFindings:
    """Yield warnings about features and bugs of the cluster's Kubernetes release."""
    if cluster.api.path(f"{NATIVE_GANGS.group}/{_NATIVE_VERSION}", NATIVE_GANGS.kind):
        for plan in cluster.plans:
            if plan.gang is not None and plan.gang.is_native:
                message = (
                    f"{NATIVE_GANGS.name} also need the feature gate GenericWorkload in the "
                    "scheduler; the API does not show whether it is on, and without it pods start "
                    "one by one"
                )
                yield plan, warning(FEATURE_GATE_OFF_BY_DEFAULT, (), message)
    release = parse_product_release(cluster.api.release)
    first, last = RELEASES_WITH_STALLED_STATEFULSETS
    if cluster.plans and release is not None and first <= release <= last:
        message = (
            f"Kubernetes: {format_release(release)} does not replace broken pods "
            "(kubernetes#137409): an update does not repair a replica that never became ready "
            "unless its leader pod is deleted or the update's strategy is Recreate; use a "
            f"release before {format_release(first)} or after {format_release(last)}"
        )
        yield None, warning(STATEFULSET_KEEPS_BROKEN_PODS, (), message)
