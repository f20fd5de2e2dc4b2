"""What each release of the endpoint pickers has, as data: one file in `releases` for each family.

| Key | Source |
|---|---|
| `featureGates` | the gates that it registers (`cmd/epp/runner/runner.go`) |
| `sections` | top-level keys of the configuration and the keys inside, null where they are not checked (`apix/config/v1alpha1/endpointpickerconfig_types.go`); an unknown key stops it |
| `flags` | `--help`; `cmd/epp/runner/runner.go` of v1.2.1, `pkg/epp/server/options.go` later |
| `plugins` | `registerInTreePlugins` in `cmd/epp/runner/runner.go`, and the factories named there; in `parameters` null where they are not known |
| `sidecarConnectors`, `sidecarFlags` | `pkg/sidecar/proxy/options.go` and `proxy.go`, the default connector first |
| `sidecarReadsPool` | whether it reads the selector of a v1 InferencePool (`pkg/sidecar/proxy/allowlist.go`): up to v0.9.0 it asked for pods labelled `matchLabels`, which no label can be |

The releases are v1.2.1, v1.3.1, v1.4.0 and v1.5.0 of the inference extension, and v0.7.1, v0.8.0,
v0.9.0 and v0.10.0 of llm-d. llm-d v0.7.1 and v0.8.0 embed the endpoint pickers v1.4.0 and v1.5.0
(`go.mod`) and register more (`pkg/plugins/register.go` of v0.7.1,
`pkg/epp/framework/plugins/register.go` of v0.8.0). Parameters of v0.10.0 were read off its own
factories, by giving each every name that occurs in the source.

`prefix-cache-scorer` of v1.5.0 reads nothing itself any more, but the loader hands its parameters
to an `approx-prefix-cache-producer` when none is declared (`loader/configloader.go:176-211`).
`kubeconfig` is a flag of controller-runtime, which some releases bind as well.
"""  # noqa: E501  # rows of a table

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.family import Family

_FOLDER = Path(__file__).parent / "releases"


@cache
def release(family: Family) -> dict[str, Any]:
    """The data of a family's newest release."""
    data: dict[str, Any] = json.loads(
        (_FOLDER / f"{family.value}.json").read_text(encoding="utf-8")
    )
    return data


def names(family: Family, key: str) -> frozenset[str]:
    """A list of names in a release's data, empty where it has none."""
    return frozenset(release(family).get(key, ()))
