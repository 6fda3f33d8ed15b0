"""Names of packages, and whole modules, loaded when somebody first asks for one: scikit-learn alone takes a second to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def opened_on_use(room: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package. `names` gives, for each of its modules, the names it holds, with spaces between."""
    place = {name: f"{room}.{module}" for module, held in names.items() for name in held.split()}

    def get(name: str) -> Any:
        if name not in place:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(place[name]), name)

    return get, lambda: sorted(place)


class _ModuleOnUse(ModuleType):
    """A module by its name: imported when one of its attributes is first asked for."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        # Found without this function from now on.
        setattr(self, name, found)
        return found


def loaded_on_use(module: str) -> Any:
    """A stand-in for a module that is imported when one of its attributes is first asked for."""
    return _ModuleOnUse(module)
