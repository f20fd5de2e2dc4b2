"""Endpoint picker configurations of the router document."""

from typing import Any

import yaml

HEADER = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n"

_ONE_SCORER = """\
plugins:
  - type: {scorer}
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: max-score-picker
      - pluginRef: {scorer}
        weight: 100
"""

_PREFIX = """\
  - type: prefix-cache-scorer
    parameters:
      {block}: 5
      maxPrefixBlocksToMatch: 256
      lruCapacityPerServer: 31250
"""

_DISAGGREGATION = f"""\
plugins:
  - type: pd-profile-handler
    parameters:
      threshold: 0
      hashBlockSize: 5
      primaryPort: 8000
  - type: prefill-header-handler
  - type: by-label
    name: prefill-pods
    parameters:
      label: "fusioninfer.io/component-type"
      validValues: ["prefiller"]
  - type: by-label
    name: decode-pods
    parameters:
      label: "fusioninfer.io/component-type"
      validValues: ["decoder"]
{_PREFIX.format(block="hashBlockSize")}  - type: max-score-picker
schedulingProfiles:
  - name: prefill
    plugins:
      - pluginRef: prefill-pods
      - pluginRef: max-score-picker
      - pluginRef: prefix-cache-scorer
        weight: 50
  - name: decode
    plugins:
      - pluginRef: decode-pods
      - pluginRef: max-score-picker
      - pluginRef: prefix-cache-scorer
        weight: 50
"""

# The custom configuration in example 2 of the document.
_CUSTOM = """\
plugins:
  - type: prefix-cache-scorer
    parameters:
      blockSize: 10
      maxPrefixBlocksToMatch: 512
      lruCapacityPerServer: 50000
  - type: kv-cache-utilization-scorer
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: max-score-picker
      - pluginRef: prefix-cache-scorer
        weight: 70
      - pluginRef: kv-cache-utilization-scorer
        weight: 30
"""

_DOCUMENTS = {
    "prefix-cache": _ONE_SCORER.format(scorer="prefix-cache-scorer").replace(
        "  - type: prefix-cache-scorer\n", _PREFIX.format(block="blockSize")
    ),
    "kv-cache-utilization": _ONE_SCORER.format(scorer="kv-cache-utilization-scorer"),
    "queue-size": _ONE_SCORER.format(scorer="queue-scorer"),
    "lora-affinity": _ONE_SCORER.format(scorer="lora-affinity-scorer"),
    "pd-disaggregation": _DISAGGREGATION,
    "custom": _CUSTOM,
}


def document(name: str) -> str:
    """Return a configuration file by its strategy, or `custom`."""
    return HEADER + _DOCUMENTS[name]


def base(**changes: Any) -> str:
    """Return a configuration that every endpoint picker accepts, with these top-level values.

    `"absent"` removes a key.
    """
    references = [{"pluginRef": "queue-scorer", "weight": 1}, {"pluginRef": "max-score-picker"}]
    config = {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": "queue-scorer"}, {"type": "max-score-picker"}],
        "schedulingProfiles": [{"name": "default", "plugins": references}],
        **changes,
    }
    kept = {key: value for key, value in config.items() if value != "absent"}
    return str(yaml.safe_dump(kept, sort_keys=False))
