"""The API server's word on the objects of docs/how-to/security.md, with Envoy Gateway's CRDs."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import yaml

from e2e import checks
from e2e.catalog import manifests, tool
from e2e.harness import ApiError, Cluster, Object
from e2e.inputs import ROOT

pytestmark = pytest.mark.skipif(
    not tool("envoy-gateway").is_built,
    reason="not built: python -m e2e.build_tools --only envoy-gateway",
)

PAGE = ROOT / "docs" / "how-to" / "security.md"
FILES = ("clients.yaml", "tokens.yaml", "limits.yaml", "tokens-a-minute.yaml", "verify.yaml")


def shown(file: str) -> list[Object]:
    """The objects that the page shows in a file."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f'```yaml title="{file}"\n')
    return list(yaml.safe_load_all(rest.partition("```")[0]))


@pytest.fixture(scope="module")
def kinds(cluster: Cluster) -> Iterator[None]:
    """The kinds of Envoy Gateway."""
    crds = [yaml.safe_load(path.read_text()) for path in manifests("envoy-gateway", "crds")]
    cluster.apply(crds)

    def served() -> bool:
        stored = [cluster.get("apiextensions.k8s.io/v1/CustomResourceDefinition",
                              each["metadata"]["name"]) for each in crds]  # fmt: skip
        told = [(each.get("status") or {}).get("conditions") or () for each in stored]
        return all(
            any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
            for conditions in told
        )

    cluster.wait(served, 60)
    yield
    for each in crds:
        name = each["metadata"]["name"]
        cluster.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", name)


@pytest.mark.proves(
    "the API server accepts the page's objects for keys, tokens, limits and certificates, whole",
    needs="envoy-gateway is built",
)
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("file", FILES)
def test_the_pages_objects_are_accepted(cluster: Cluster, namespace: str, file: str) -> None:
    objects = shown(file)
    assert objects
    for sent in objects:
        sent["metadata"]["namespace"] = namespace
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)


@pytest.mark.usefixtures("kinds")
def test_what_the_kinds_do_not_know_is_refused(cluster: Cluster, namespace: str) -> None:
    sent = copy.deepcopy(shown("limits.yaml")[0])
    sent["metadata"]["namespace"] = namespace
    sent["spec"]["rateLimit"]["local"]["rules"][0]["limit"]["unit"] = "Fortnight"
    with pytest.raises(ApiError, match="Unsupported value"):
        cluster.apply([sent], dry_run=True)
