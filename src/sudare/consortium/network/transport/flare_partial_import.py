"""FLARE's package, without what its root imports: a simulator, deployers and job tools, of which a cell needs nothing."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Final

_PACKAGE: Final = "nvflare"


def use_only_what_is_imported() -> None:
    """Let modules of FLARE be imported each by itself, unless all of it is loaded already. What its root has is loaded once it is asked for."""
    if _PACKAGE in sys.modules:
        return
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        return
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def of_root(name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = of_root
    sys.modules[_PACKAGE] = package
