"""What is known about each endpoint picker image, and the configuration that each understands.

`table`, `plugins` and `flags` say what the families register, read and refuse; `images` finds the
family of an image. `intent` is what a router role asks for; `config` says whether an endpoint
picker can do it and writes its EndpointPickerConfig; `check` reads a user's own. `sidecar` knows
the prefill/decode sidecar of each release. Everything is pure.
"""

from fusioninfer_pulumi.pickers._table import FAMILIES
from fusioninfer_pulumi.pickers.check import check_config
from fusioninfer_pulumi.pickers.config import (
    PAIRING_PLUGINS,
    GroupAffinity,
    PickerRequest,
    check_strategy,
    picker_config,
    picker_config_text,
    strategy_in_words,
)
from fusioninfer_pulumi.pickers.family import Family, PickerFamily
from fusioninfer_pulumi.pickers.flags import PickerFlags, check_args, picker_flags
from fusioninfer_pulumi.pickers.images import (
    DEFAULT_IMAGE,
    DEFAULT_PD_IMAGE,
    family_of,
    unknown_image,
)

__all__ = [
    "DEFAULT_IMAGE",
    "DEFAULT_PD_IMAGE",
    "FAMILIES",
    "PAIRING_PLUGINS",
    "Family",
    "GroupAffinity",
    "PickerFamily",
    "PickerFlags",
    "PickerRequest",
    "check_args",
    "check_config",
    "check_strategy",
    "family_of",
    "picker_config",
    "picker_config_text",
    "picker_flags",
    "strategy_in_words",
    "unknown_image",
]
