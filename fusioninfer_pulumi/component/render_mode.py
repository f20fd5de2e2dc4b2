"""Finds out whether objects go to a cluster or, as YAML files, to a directory.

In the provider's render-to-directory mode nothing can be awaited, and a patch would overwrite the
file of the object that it patches.
"""

from __future__ import annotations

import pulumi

from fusioninfer_pulumi.component.recorder import collect_plans

_OPTION = "render_yaml_to_directory"


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
        return bool(pulumi.Config("kubernetes").get("renderYamlToDirectory"))
    directory = vars(provider).get(_OPTION)
    if not isinstance(directory, pulumi.Output):
        return False
    return pulumi.Output.from_input(_is_given(directory))


async def _is_given(directory: pulumi.Output[str | None]) -> bool:
    # A preview does not know what was not given.
    return await directory.is_known() and bool(await directory.future())
