"""What is known about each endpoint picker image, and the configuration that each understands.

`table` says what the families register, read and refuse; `images` finds an image's family;
`strategy` says whether a picker can do what is asked; `config` writes its EndpointPickerConfig and
`check` reads a user's own; `flags` writes its command line. Everything is pure.
"""

from fusioninfer_pulumi.pickers.check import check_config
from fusioninfer_pulumi.pickers.config import picker_config, picker_config_text
from fusioninfer_pulumi.pickers.family import Family, PickerFamily
from fusioninfer_pulumi.pickers.flags import PickerFlags, check_args, picker_flags
from fusioninfer_pulumi.pickers.group_pairing import PAIRING_PLUGINS
from fusioninfer_pulumi.pickers.images import (
    DEFAULT_IMAGE,
    DEFAULT_PD_IMAGE,
    family_of,
    unknown_image,
)
from fusioninfer_pulumi.pickers.request import (
    STRATEGIES,
    GroupPairing,
    PickerRequest,
    PrefillDecode,
)
from fusioninfer_pulumi.pickers.strategy import check_strategy, strategy_in_words
from fusioninfer_pulumi.pickers.table import FAMILIES

__all__ = [
    "DEFAULT_IMAGE",
    "DEFAULT_PD_IMAGE",
    "FAMILIES",
    "PAIRING_PLUGINS",
    "STRATEGIES",
    "Family",
    "GroupPairing",
    "PickerFamily",
    "PickerFlags",
    "PickerRequest",
    "PrefillDecode",
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
