"""The protobuf types of the SDK's messages, imported in one place.

Their stubs are a package of their own, which type checking must not depend on.
"""

# Ignored with its stubs, too: see above.
from google.protobuf import (  # type: ignore[import-untyped,unused-ignore]
    empty_pb2,
    struct_pb2,
)

__all__ = ["empty_pb2", "struct_pb2"]
