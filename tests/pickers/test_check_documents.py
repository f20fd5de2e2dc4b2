"""What each family says about the router document's configurations: what the real pickers did."""

from collections.abc import Callable

import pytest
import yaml

from fusioninfer_pulumi.pickers import FAMILIES, check_config

Said = Callable[..., list[tuple[str, str]]]
ROUTER = ("llm-d-0.9", "llm-d-0.10")


def messages(text: str, family: str) -> str:
    return "\n".join(str(finding) for finding in check_config(text, FAMILIES[family]))


SIZE = "plugins[0].parameters.blockSize"
DEPRECATED_API = ("info", "apiVersion")
THREE = ("blockSize", "maxPrefixBlocksToMatch", "lruCapacityPerServer")
STRICT = [("error", f"plugins[0].parameters.{name}") for name in THREE]


@pytest.mark.parametrize("name", ["prefix-cache", "custom"])
@pytest.mark.parametrize(
    ("family", "want"),
    [
        ("gaie-1.2", []),
        ("gaie-1.3", []),
        ("gaie-1.4", [("error", SIZE)]),
        ("gaie-1.5", [("warning", SIZE)]),
        ("llm-d-0.7", [("error", SIZE)]),
        ("llm-d-0.8", [("warning", SIZE)]),
        ("llm-d-0.9", [DEPRECATED_API, *STRICT]),
        ("llm-d-0.10", [DEPRECATED_API, *STRICT]),
    ],
)
def test_document_prefix_cache(
    name: str,
    family: str,
    want: list[tuple[str, str]],
    document: Callable[[str], str],
    said: Said,
) -> None:
    assert said(document(name), family) == want


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("strategy", ["kv-cache-utilization", "queue-size", "lora-affinity"])
def test_document_single_scorers(
    strategy: str, family: str, document: Callable[[str], str], said: Said
) -> None:
    want = [DEPRECATED_API] if family in ROUTER else []
    assert said(document(strategy), family) == want


@pytest.mark.parametrize("family", ["gaie-1.2", "gaie-1.3", "gaie-1.4", "gaie-1.5"])
def test_document_disaggregation_has_no_plugins_in_the_inference_extension(
    family: str, document: Callable[[str], str], said: Said
) -> None:
    types = [("error", f"plugins[{index}].type") for index in range(4)]
    ignored = ("warning", "plugins[4].parameters.hashBlockSize")
    text = document("pd-disaggregation")
    assert said(text, family) == [*types, ignored]
    assert "plugins[0].type: " in messages(text, family)
    assert "registered by llm-d-0.7, llm-d-0.8, llm-d-0.9, llm-d-0.10" in messages(text, family)
    assert said(text, family, own_image=True) == [
        *(("warning", path) for _, path in types),
        ignored,
    ]


@pytest.mark.parametrize("family", ["llm-d-0.7", "llm-d-0.8"])
def test_document_disaggregation_lacks_a_decider(
    family: str, document: Callable[[str], str], said: Said
) -> None:
    assert said(document("pd-disaggregation"), family) == [
        ("warning", "plugins[0].parameters.threshold"),
        ("warning", "plugins[0].parameters.hashBlockSize"),
        ("warning", "plugins[0].parameters.primaryPort"),
        ("warning", "plugins[4].parameters.hashBlockSize"),
        ("error", "plugins[0].parameters.deciderPluginName"),
    ]


@pytest.mark.parametrize("family", ROUTER)
def test_document_disaggregation_on_the_router(
    family: str, document: Callable[[str], str], said: Said
) -> None:
    text = document("pd-disaggregation")
    strict = ("hashBlockSize", "maxPrefixBlocksToMatch", "lruCapacityPerServer")
    assert said(text, family) == [
        DEPRECATED_API,
        ("info", "plugins[0].type"),
        ("error", "plugins[0].parameters.threshold"),
        ("error", "plugins[0].parameters.hashBlockSize"),
        ("warning", "plugins[0].parameters.primaryPort"),
        ("info", "plugins[1].type"),
        ("info", "plugins[2].type"),
        ("info", "plugins[3].type"),
        *(("error", f"plugins[4].parameters.{name}") for name in strict),
        ("error", "plugins[0].parameters.deciderPluginName"),
    ]
    assert "v0.11.0; write label-selector-filter" in messages(text, family)


def test_document_example_3_is_written_as_an_object(
    document: Callable[[str], str], said: Said
) -> None:
    flat = yaml.safe_load(document("queue-size"))
    header = {key: flat.pop(key) for key in ("apiVersion", "kind")}
    text = yaml.safe_dump({**header, "metadata": {"name": "x"}, "spec": flat})
    for family in (*FAMILIES, None):
        assert [each for each in said(text, family) if each[0] == "error"][:2] == [
            ("error", "metadata"),
            ("error", "spec"),
        ]
