"""Finds the architecture of a service's model."""

from __future__ import annotations

from fusioninfer_capacity.fit.architecture import (
    Architecture,
    UnknownArchitectureError,
    find_architecture,
    load_models,
    read_config,
)
from fusioninfer_pulumi.plugins.capacity import (
    ModelArgs,
    ModelConfigError,
    closest_name,
    hub_name,
    read_model_config,
)


def find_model_architecture(model: ModelArgs | None, argument: str | None = None) -> Architecture:
    """Return the architecture of `model.config`, else the table's for `model.uri` or `argument`.

    Raises:
        ModelConfigError: The file of `model.config` cannot be read.
        UnknownArchitectureError: The config is not supported, or the table has no such model.
    """
    if model is not None and model.config is not None:
        config = model.config
        try:
            return read_config(read_model_config(config) if isinstance(config, str) else config)
        except (ModelConfigError, UnknownArchitectureError):
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            raise UnknownArchitectureError("model.config is not a supported config") from None
    uri = model.uri if model is not None else None
    name = (hub_name(uri) if uri is not None else None) or argument or uri or ""
    architecture = find_architecture(name)
    if architecture is None:
        if not name:
            raise UnknownArchitectureError("the model is unknown; set model.uri")
        closest_match = closest_name(name, load_models())
        closest = f" (closest: {closest_match})" if closest_match else ""
        raise UnknownArchitectureError(
            f"model {name} is not in the table{closest}; set model.config to its config.json"
        )
    return architecture
