"""Services with a `model`, and their pods."""

from __future__ import annotations

from typing import Any

from samples import container, pod_templates, role, service, template


def serving(model: dict[str, Any], multinode: Any = None, **more: Any) -> Any:
    """Return a service with a model; its container has no arguments except those in `more`."""
    pod = template(container(gpus=1, **{"args": None, **more}))
    return service(role(template=pod, multinode=multinode), model=model)


def pod(manifest: Any) -> Any:
    """Return the first pod template's spec."""
    return pod_templates(manifest)[0]["spec"]


def main(manifest: Any) -> Any:
    """Return the first container of that spec."""
    return pod(manifest)["containers"][0]
