"""Fields about containers that the library writes, held against what the user wrote."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.pods.models import TOKEN_FOR_GATED_MODEL
from fusioninfer_pulumi.engines.served_model import is_gated
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.presets.expand import is_written
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT


def preset_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Checks the fields that only containers of the library read."""
    written = [is_written(args, role) for role in args.roles]
    for index, role in enumerate(args.roles):
        if role.component_type is ComponentType.ROUTER or written[index]:
            continue
        if role.gpus is not None:
            message = "has no effect: the template names the image; give its resources, or engine"
            yield error(FIELD_WITHOUT_EFFECT, ("roles", index, "gpus"), message)
    if not any(written):
        for name, value in (("engine", args.engine), ("imageRegistry", args.image_registry)):
            if value is not None:
                message = "has no effect: no role leaves its container to the library"
                yield error(FIELD_WITHOUT_EFFECT, (name,), message)
        return
    model = args.model
    assert model is not None, "containers are written for a model"
    name = model.uri.removeprefix("hf://").partition("@")[0]
    if model.uri.startswith("hf://") and is_gated(name) and model.token_secret is None:
        message = f"is not given, and {name} is gated: name a Secret with a token of Hugging Face"
        yield warning(TOKEN_FOR_GATED_MODEL, ("model", "tokenSecret"), message)
