"""What is known about each endpoint picker image, and the configuration that each understands.

`table`, `plugins` and `flags` say what the families register, read and refuse; `images` finds the
family of an image. `intent` is what a router role asks for; `config` says whether an endpoint
picker can do it and writes its EndpointPickerConfig; `check` reads a user's own. `sidecar` knows
the prefill/decode sidecar of each release. Everything is pure.
"""

from fusioninfer_pulumi.endpoint_pickers._table import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.check import check_config
from fusioninfer_pulumi.endpoint_pickers.config import (
    PAIRING_PLUGINS,
    EppRequest,
    GroupAffinity,
    check_strategy,
    epp_config,
    epp_config_text,
    strategy_summary,
)
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, Family
from fusioninfer_pulumi.endpoint_pickers.flags import EppFlags, check_args, epp_flags
from fusioninfer_pulumi.endpoint_pickers.images import (
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
    "EppFamily",
    "EppFlags",
    "EppRequest",
    "Family",
    "GroupAffinity",
    "check_args",
    "check_config",
    "check_strategy",
    "epp_config",
    "epp_config_text",
    "epp_flags",
    "family_of",
    "strategy_summary",
    "unknown_image",
]
