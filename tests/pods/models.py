"""Services with a `model`, and what becomes of their pods."""

from __future__ import annotations

from typing import Any

from samples import container, pod_templates, role, service, template


def serving(model: dict[str, Any], multinode: Any = None, **more: Any) -> Any:
    """Return a service with a model; its container has no arguments except those in `more`."""
    pod = template(container(gpus=1, **{"args": None, **more}))
    return service(role(template=pod, multinode=multinode), model=model)


def pod(manifest: Any) -> Any:
    """The pod spec of the first template."""
    return pod_templates(manifest)[0]["spec"]


def main(manifest: Any) -> Any:
    """Its first container."""
    return pod(manifest)["containers"][0]
