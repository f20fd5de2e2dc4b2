"""The plugins of every family, with the parameters that each reads and its announced removal."""

from __future__ import annotations

from fusioninfer_pulumi.endpoint_pickers._releases import release
from fusioninfer_pulumi.endpoint_pickers.family import Family, PluginKind, PluginType

#: Families that stop at unknown parameters where a factory reads any; the others ignore them.
#: (`pkg/epp/framework/interface/plugin/registry.go`, StrictDecoder.)
_STRICT = Family.LLM_D_0_9.later

#: Families in which these removals were announced.
_ANNOUNCING = Family.LLM_D_0_9.later
_IN_0_11 = "was announced to be removed in v0.11.0; write"
_REMOVALS = {
    "by-label": f"{_IN_0_11} label-selector-filter",
    "by-label-selector": f"{_IN_0_11} label-selector-filter",
    "disagg-headers-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "prefill-header-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "tokenizer": f"{_IN_0_11} token-producer",
    "pd-profile-handler": "was to be removed in v0.9.0; write disagg-profile-handler",
}


def _plugins(family: Family) -> dict[str, PluginType]:
    plugins = {}
    for name, plugin in release(family)["plugins"].items():
        parameters = None if plugin["parameters"] is None else frozenset(plugin["parameters"])
        plugins[name] = PluginType(
            name=name,
            kind=PluginKind(plugin["kind"]),
            parameters=parameters,
            strict=family in _STRICT and bool(parameters),
            alpha=plugin.get("alpha", False),
            removal=_REMOVALS.get(name) if family in _ANNOUNCING else None,
        )
    return plugins


#: By family and type.
PLUGINS = {family: _plugins(family) for family in Family}
