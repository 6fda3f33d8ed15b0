"""Releases from member to member: published, fetched, verified, kept, withdrawn. No I/O but the store, no clock.

A release is a signed file. A receiver believes it only if the key that the agreement names for its sender signed it, the file passes
every check that a file from a stranger must pass, and it is what the task asks for. One member has one release in a task:
another file in its place is refused. Withdrawn, it is forgotten by everyone who follows the protocol; nobody can be made to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sudare.consortium.network.message_dispatch import STOP, Activity, Envelope, stopped_by
from sudare.consortium.tasks.checkpoints import WITHDRAWN, CheckpointStore, place_of_release
from sudare.errors import (
    MessageMalformed,
    NotConnected,
    ReleaseError,
    ReleaseUntrusted,
    StateDamaged,
    SudareError,
)
from sudare.privacy.release import Release, audited
from sudare.privacy.release_file import parsed, verify_signature

RELEASE, FETCH, WITHDRAW = "release", "fetch", "withdraw"
_FETCH_SECONDS: Final = 10.0
# A member that asks more often than that is answered as often as that.
_LEAST_ANSWER_SECONDS: Final = 5.0

Check = Callable[[Release], None]


def withdrawal_of(task: str) -> Envelope:
    """What a member says that takes its release back."""
    return Envelope(task, WITHDRAW)


def verified(content: bytes, signer: bytes, check: Check) -> Release:
    """The release in a file, if this key signed it and it is what was agreed on."""
    file = parsed(content)
    verify_signature(file, [Ed25519PublicKey.from_public_bytes(signer)])
    release = audited(file)
    check(release)
    return release


class ReleaseExchange(Activity):
    """An activity: everyone's release at everyone. `own` is the file of this member, made and paid for before; `keys` are everyone's signing keys."""

    def __init__(
        self,
        task: str,
        name: str,
        keys: Mapping[str, bytes],
        own: bytes,
        store: CheckpointStore,
        check: Check,
        silence_seconds: float = 30.0,
        timeout_seconds: float = 600.0,
    ) -> None:
        super().__init__(task, name, keys, silence_seconds)
        self._name, self._keys, self._own, self._store, self._check = name, keys, own, store, check
        self._timeout_seconds = timeout_seconds
        self._begun_at = self._asked_at = 0.0
        self._answered_at: dict[str, float] = {}
        self._here: set[str] = set()
        self._withdrawn: set[str] = set()

    @property
    def finished(self) -> bool:
        """Whether every member's release is here, or was withdrawn."""
        return all(self._is_here(name) for name in self._keys)

    def files(self) -> dict[str, bytes]:
        """The releases that are here and were not withdrawn, by member."""
        held = {name: self._held(name) for name in self._keys}
        return {name: content for name, content in held.items() if content not in (None, WITHDRAWN) and content}

    def withdrawn(self) -> frozenset[str]:
        """Members whose releases were withdrawn. Asked for a few times a second, so that no release is read for it."""
        return frozenset(self._withdrawn)

    def releases(self) -> dict[str, Release]:
        """Returns the releases, verified again as they are read."""
        return {name: verified(file, self._keys[name], self._check) for name, file in self.files().items()}

    def begin(self, now: float) -> None:
        """Publish, unless this member's release was withdrawn before."""
        self._begun_at = self._asked_at = now
        held = self._store.load(place_of_release(self._name))
        if held is None:
            try:
                verified(self._own, self._keys[self._name], self._check)
            except SudareError as error:
                self.stop(error)
                return
            self._store.save(place_of_release(self._name), self._own)
        # It is in the store from now on.
        self._own = b""
        self._publish(*self._others)

    def withdraw(self) -> None:
        """Take this member's release back. What was charged for it stays charged."""
        self._forget(self._name)
        self._publish(*self._others)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in. A relay has no part in this."""
        if sender not in self._keys:
            return True
        if envelope.kind != RELEASE and envelope.body:
            self.stop(MessageMalformed(f"'{sender}' sent more than it may say here.", "Use one program version."))
        elif envelope.kind == STOP:
            if not self.finished and self.failure is None:
                self.failure = stopped_by(f"'{sender}'", envelope)
        elif envelope.kind == FETCH:
            self._answer(sender, now)
        elif envelope.kind == WITHDRAW:
            self._forget(sender)
        elif self.failure is not None:
            self._posts.append((sender, Envelope(self.task, STOP)))
        else:
            self._guarded(self._keep, sender, envelope)
        return True

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Ask those who are there for what is missing; give up on the others after a while."""
        if self.finished or self.failure is not None:
            return
        missing = [name for name in self._others if not self._is_here(name)]
        if now - self._begun_at > self._timeout_seconds:
            absent = ", ".join(f"'{name}'" for name in missing)
            self.stop(NotConnected(f"These members' releases did not come in time: {absent}.", NotConnected.help))
        elif now - self._asked_at >= _FETCH_SECONDS:
            self._asked_at = now
            self._posts += [(name, Envelope(self.task, FETCH)) for name in missing if name in present]

    def _answer(self, sender: str, now: float) -> None:
        """Send this member's release to one that asks for it, but not more often than it may ask."""
        if now - self._answered_at.get(sender, -math.inf) >= _LEAST_ANSWER_SECONDS:
            self._answered_at[sender] = now
            self._publish(sender)

    def _is_here(self, name: str) -> bool:
        """Whether a member's release, or its withdrawal, is in the store. What is there stays, so that it is looked for once."""
        if name not in self._here:
            held = self._held(name)
            if held is not None:
                self._here.add(name)
            if held == WITHDRAWN:
                self._withdrawn.add(name)
        return name in self._here

    def _held(self, name: str) -> bytes | None:
        """A member's release in the store, or its withdrawal. Another's that is damaged is asked for again; raise StateDamaged where it is this member's own."""
        try:
            return self._store.load(place_of_release(name))
        except StateDamaged:
            if name == self._name:
                raise
        return None

    def _forget(self, name: str) -> None:
        """A member's release was withdrawn."""
        if self._held(name) != WITHDRAWN:
            self._store.save(place_of_release(name), WITHDRAWN)
        self._withdrawn.add(name)

    def _keep(self, sender: str, envelope: Envelope) -> None:
        if envelope.kind != RELEASE:
            raise MessageMalformed(f"'{sender}' sent a message of an unknown kind.", "Use one program version.")
        held = self._held(sender)
        if held in (WITHDRAWN, envelope.body):
            return
        if held is not None:
            raise ReleaseUntrusted(
                f"'{sender}' sent another release in the place of its first.", "Ask that member by telephone."
            )
        try:
            verified(envelope.body, self._keys[sender], self._check)
        except ReleaseError as error:
            # The same kind of error, with the sender's name before it.
            raise type(error)(f"The release of '{sender}': {error.problem}", error.remedy) from None
        self._store.save(place_of_release(sender), envelope.body)

    def _publish(self, *receivers: str) -> None:
        held = self._store.load(place_of_release(self._name))
        if held is not None:
            gone = held == WITHDRAWN
            envelope = withdrawal_of(self.task) if gone else Envelope(self.task, RELEASE, body=held)
            self._posts += [(name, envelope) for name in receivers]
