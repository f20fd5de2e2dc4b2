"""The plugins of every family, with the parameters that each reads and its announced removal."""

from __future__ import annotations

from fusioninfer_pulumi.endpoint_pickers._releases import release
from fusioninfer_pulumi.endpoint_pickers.family import Family, PluginKind, PluginType

#: Families that stop at unknown parameters where a factory reads any; the others ignore them.
#: (`pkg/epp/framework/interface/plugin/registry.go`, StrictDecoder.)
_STRICT = Family.LLM_D_0_9.later

#: llm-d v0.9.0 announced the removals that the sources of v0.10.0 list.
_ANNOUNCING, _LISTING = Family.LLM_D_0_9.later, Family.LLM_D_0_10


def _removals() -> dict[str, str]:
    """The announced removals, by plugin."""
    plugins = release(_LISTING)["plugins"]
    removals = {name: plugin["removal"] for name, plugin in plugins.items() if "removal" in plugin}
    return {
        name: f"was announced to be removed in {removed}; write {instead}"
        for name, (_, removed, instead) in removals.items()
    }


_REMOVALS = _removals()


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
