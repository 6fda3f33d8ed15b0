"""pyarrow, imported when it is first used: a node that waits reads agreements and schemas but no table, and pyarrow takes 34 MB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sudare.lazy_exports import loaded_on_use

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = loaded_on_use("pyarrow"), loaded_on_use("pyarrow.compute")

__all__ = ["pa", "pc"]
