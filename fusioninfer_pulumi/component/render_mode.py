"""Finds out whether objects go to a cluster or, as YAML files, to a directory.

In the provider's render-to-directory mode nothing can be awaited, and a patch would overwrite the
file of the object that it patches.
"""

from __future__ import annotations

import pulumi

from fusioninfer_pulumi.component.recorder import collect_plans

_OPTION = "renderYamlToDirectory"


def rendering(component: pulumi.Resource) -> bool | pulumi.Output[bool]:
    """Tells whether a component's objects are only written to files.

    Args:
        component: The component whose children are asked about.

    Returns:
        Plainly where the default provider or the command line is used; as an Output, which is
        always known, with an explicit provider: it does not tell its arguments before.
    """
    if collect_plans.get() is not None:
        return True
    provider = component.get_provider("kubernetes:core/v1:Service")
    if provider is None:
        return bool(pulumi.Config("kubernetes").get(_OPTION))
    return pulumi.Output.from_input(_renders(provider))


async def _renders(provider: pulumi.ProviderResource) -> bool:
    # The engine is asked, because a provider's arguments are none of its outputs in Python.
    query = {"urn": await provider.urn.future()}
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    return bool(((answer or {}).get("state") or {}).get(_OPTION))
