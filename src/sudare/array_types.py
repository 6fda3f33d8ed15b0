"""Types of arrays, for signatures: each named once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Positions = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
