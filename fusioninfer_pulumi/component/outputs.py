"""Live values of registered resources as outputs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.component.resources import KubernetesObject

T = TypeVar("T")
#: `metadata` and `status` of objects, by name.
Looks = dict[str, dict[str, Any]]


def live(objects: Mapping[str, KubernetesObject]) -> pulumi.Output[Looks]:
    """Combines what the cluster says of objects.

    As `pulumi.Output.all` would, which makes an Output of every structure inside of every value:
    for the metadata and status of 1,000 objects that takes as long as registering them.

    Args:
        objects: The objects by name.

    Returns:
        `metadata` and `status` of each by name: known when all are, secret when one is.
    """
    outputs = [output for each in objects.values() for output in (each.metadata, each.status)]

    def looks(values: list[Any]) -> Looks:
        return {
            name: {"metadata": values[2 * at], "status": values[2 * at + 1]}
            for at, name in enumerate(objects)
        }

    return together(outputs, looks)


def together(
    outputs: Sequence[pulumi.Output[Any]], made: Callable[[list[Any]], T]
) -> pulumi.Output[T]:
    """Makes one Output of several, without looking into their values.

    Args:
        outputs: What it is made of.
        made: Makes its value of theirs, which may be unknown.

    Returns:
        It: known when all are, secret when one is.
    """

    async def resources() -> set[pulumi.Resource]:
        return {resource for output in outputs for resource in await output.resources()}

    async def value() -> T:
        return made([await output.future(with_unknowns=True) for output in outputs])

    async def known() -> bool:
        return all([await output.is_known() for output in outputs])

    async def secret() -> bool:
        return any([await output.is_secret() for output in outputs])

    return pulumi.Output(_Later(resources), _Later(value), _Later(known), _Later(secret))


class _Later(Awaitable[T]):
    """A coroutine that is made when somebody awaits it: of a program that fails, nobody does."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make

    def __await__(self) -> Generator[Any, Any, T]:
        return self._make().__await__()


def newest(*seen: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Which of several looks at one object came last.

    A resource that did not change keeps what it saw when it was made; the version of an object
    grows with every write.
    """

    def version(look: Mapping[str, Any]) -> int:
        text = str((look.get("metadata") or {}).get("resourceVersion") or "")
        return int(text) if text.isdecimal() else -1

    looks = [look for look in seen if look]
    return max(looks, key=version) if looks else None


def before_update(look: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An object as a preview found it.

    The API server's dry run counts a change as a new generation, of which the status, which is that
    of the running object, cannot speak yet.
    """
    if not look or "generation" not in (look.get("metadata") or {}):
        return look
    metadata = {key: value for key, value in look["metadata"].items() if key != "generation"}
    return {**look, "metadata": metadata}


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
