"""Who may ask and who may decide: users, and roles of which each may do what those before it may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from sudare.errors import InvalidParameter

Role = Literal["viewer", "analyst", "steward"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)


@dataclass(frozen=True)
class User:
    """Somebody who signs in with a password. `password` is what `sudare page password` printed."""

    name: str
    role: Role
    password: str = field(repr=False)


def may(role: Role, least: Role) -> bool:
    """Whether somebody with a role may do what another one may."""
    return ROLES.index(role) >= ROLES.index(least)


def check_may(users: Mapping[str, User], person: str, least: Role) -> None:
    """Raise InvalidParameter where users are named, and this person is none of them or may not do that much."""
    user = users.get(person)
    if users and (user is None or not may(user.role, least)):
        raise InvalidParameter(
            f"'{person}' is not among the users whose role is {least} or more.",
            "Say in whose name with --who; the settings name the users.",
        )
