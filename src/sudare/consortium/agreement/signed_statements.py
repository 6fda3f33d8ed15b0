"""What members have signed beside the agreement: that they agree, that a key follows another, that a key no longer counts.

Statements are public and only ever added: members exchange the file and merge it. Nothing in it counts unless its
signatures verify, and nothing is merged but what counts for keys and members of the agreement or of a version before it,
so a file from anywhere can be merged.

- A *signature* of a member is over the agreement's digest. With it the member signs its public keys for sums under this agreement, so that others can
  make sums that it may leave before they have met it.
- A *rotation* names a member's old and new key; both sign it, the old one to allow it and the new one to show that it is held.
- A *revocation* says that a key no longer counts. The key itself signs it, or as many other members as the threshold t says
  (all others, where t is all members), each for a reason of its own or all for one. A revoked key cannot hand over to a
  new one: the member is entered anew.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import tomli_w

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.document_fields import Field, hexadecimal, parsed_toml
from sudare.consortium.agreement.identity import Identity, verifies
from sudare.errors import AgreementError, AgreementMismatch, IdentityError, InvalidParameter, KeyRevoked
from sudare.files import LARGEST_DOCUMENT_BYTES, read_text, write_document
from sudare.privacy.ledger_chain import canonical_json
from sudare.sums.context import RELAY_NAME, Roster
from sudare.sums.keys import PublicKeys

FORMAT: Final = 1
ENDING: Final = ".statements"
MOST_STATEMENTS: Final = 20_000

_AGREEING: Final = "agreement"
_SUMMING: Final = "keys for sums"
_KEY_DIGITS, _SIGNATURE_DIGITS = 64, 128
_ROTATING: Final = "key rotation"
_REVOKING: Final = "key revocation"
# Of one member that are merged: one a month for twenty years.
_MOST_ROTATIONS: Final = 256
# With a second one a key counts no more, whatever follows.
_MOST_SUCCESSORS: Final = 2


@dataclass(frozen=True, order=True)
class Rotation:
    """From now on the new key stands for whoever the old one stood for."""

    old: str
    new: str
    time: str
    signature_by_old: str = ""
    signature_by_new: str = ""

    @classmethod
    def made(cls, old: Identity, new: Identity) -> Rotation:
        """The certificate, signed by both keys."""
        if old.public_key == new.public_key:
            raise IdentityError("The new key is the old one.", "Make a new key first.")
        unsigned = cls(old.public_key.hex(), new.public_key.hex(), now())
        signatures = [key.sign(_ROTATING, unsigned.text()).hex() for key in (old, new)]
        return cls(unsigned.old, unsigned.new, unsigned.time, *signatures)

    def text(self) -> bytes:
        """What is signed."""
        return canonical_json({"new": self.new, "old": self.old, "time": self.time}).encode()

    def is_valid(self) -> bool:
        """Whether both keys signed it."""
        return self.old != self.new and all(
            verifies(bytes.fromhex(key), _ROTATING, self.text(), bytes.fromhex(signature))
            for key, signature in ((self.old, self.signature_by_old), (self.new, self.signature_by_new))
        )


@dataclass(frozen=True)
class Revocation:
    """The key no longer counts. `signatures` are by public key."""

    key: str
    time: str
    reason: str
    signatures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signatures", MappingProxyType(dict(sorted(self.signatures.items()))))

    def text(self) -> bytes:
        """What is signed."""
        return canonical_json({"key": self.key, "reason": self.reason, "time": self.time}).encode()

    def signed_by(self, identity: Identity) -> Revocation:
        """The statement with one more signature."""
        own = {identity.public_key.hex(): identity.sign(_REVOKING, self.text()).hex()}
        return Revocation(self.key, self.time, self.reason, {**self.signatures, **own})

    def signers(self, among: Container[str]) -> frozenset[str]:
        """The public keys whose signatures verify: of these keys, and the one that is revoked."""
        return frozenset(
            key
            for key, signature in self.signatures.items()
            if (key in among or key == self.key)
            and verifies(bytes.fromhex(key), _REVOKING, self.text(), bytes.fromhex(signature))
        )


@dataclass(frozen=True)
class Statements:
    """All statements that a member has of its own and from others. What stands here need not be true; see `signature_status`.

    `sum_keys` are a member's public keys for masks and votes, and its signature under them.
    """

    signatures: Mapping[str, str] = field(default_factory=dict)
    rotations: tuple[Rotation, ...] = ()
    revocations: tuple[Revocation, ...] = ()
    sum_keys: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("signatures", "sum_keys"):
            object.__setattr__(self, name, MappingProxyType(dict(sorted(getattr(self, name).items()))))
        object.__setattr__(self, "rotations", tuple(sorted(set(self.rotations))))
        by_text: dict[bytes, Revocation] = {}
        for each in self.revocations:
            earlier = by_text.get(each.text())
            known = earlier.signatures if earlier else {}
            by_text[each.text()] = Revocation(each.key, each.time, each.reason, {**known, **each.signatures})
        object.__setattr__(self, "revocations", tuple(by_text[text] for text in sorted(by_text)))

    def merged(self, other: Statements, agreement: Agreement, earlier: Iterable[Agreement] = ()) -> Statements:
        """These statements and those of the other that verify and add something; of two signatures of one member the one that does.

        Of rotations and revocations those of keys that ever stood for a member, or for the relay, under the agreement or one of the versions `earlier`:
        anybody can make keys, and have them sign. Raise IdentityError where a member has signed two different keys for sums, another's, or keys that
        everybody knows the secrets of.
        """
        rotations, revocations = _news(self, other, (agreement, *earlier))
        theirs = Statements(
            other.signatures, (*self.rotations, *rotations), (*self.revocations, *revocations), other.sum_keys
        )
        chains, members = _chains(agreement, theirs), frozenset(agreement.member_names)
        told, known = (_good_sum_keys(agreement, each, chains) for each in (theirs, self))
        for name in sorted(told.keys() & known.keys()):
            if told[name] != known[name]:
                raise IdentityError(
                    f"{name} has signed two different keys for sums under one agreement; no honest program does.",
                    "Nothing was merged. Ask it by telephone, and let it sign a new agreement with a new key.",
                )
        own_signatures, own_keys = (
            {name: each for name, each in found.items() if name in members}
            for found in (self.signatures, self.sum_keys)
        )
        merged = replace(
            theirs,
            signatures={**own_signatures, **_good_signatures(agreement, theirs, chains)},
            sum_keys={**own_keys, **told, **known},
        )
        keys_for_sums(agreement, merged)
        return merged

    def with_known(self, known: Statements, agreement: Agreement) -> Statements:
        """These statements, and those that were known before, whatever became of the file; of two signatures of one member the one that counts."""
        both = carried(self, known)
        if known.signatures.items() <= self.signatures.items() and known.sum_keys.items() <= self.sum_keys.items():
            return both
        chains = _chains(agreement, both)
        signatures, sum_keys = (
            {
                **getattr(known, name),
                **getattr(self, name),
                **good(agreement, self, chains),
                **good(agreement, known, chains),
            }
            for name, good in (("signatures", _good_signatures), ("sum_keys", _good_sum_keys))
        )
        return replace(both, signatures=signatures, sum_keys=sum_keys)

    def signed(self, agreement: Agreement, name: str, identity: Identity) -> Statements:
        """Returns the statements with a member's signature over the agreement, and over its keys for sums under it; signatures over anything else are dropped."""
        agreement.check_complete()
        check_is_key_of(agreement, self, name, identity.public_key)
        own = {name: identity.sign(_AGREEING, agreement.digest.encode()).hex()}
        chains = _chains(agreement, self)
        good, sum_keys = _good_signatures(agreement, self, chains), _good_sum_keys(agreement, self, chains)
        kept = Statements({**good, **own}, self.rotations, self.revocations, sum_keys)
        return kept.with_sum_keys(agreement, name, identity)

    def with_sum_keys(self, agreement: Agreement, name: str, identity: Identity) -> Statements:
        """Returns the statements with a member's public keys for sums under the agreement, signed."""
        return replace(self, sum_keys={**self.sum_keys, name: _signed_sum_keys(agreement, identity)})

    # As a document

    @classmethod
    def from_toml(cls, text: str) -> Statements:
        """The statements of a TOML text."""
        document = parsed_toml(text, "The file of statements")
        fields = document.table(("format",), ("signatures", "rotations", "revocations", "sum_keys"))
        fields["format"].check_format(FORMAT, "statements")
        signatures = fields["signatures"].named() if "signatures" in fields else {}
        rotations = fields["rotations"].items() if "rotations" in fields else []
        revocations = fields["revocations"].items() if "revocations" in fields else []
        sum_keys = fields["sum_keys"].named() if "sum_keys" in fields else {}
        if max(len(signatures), len(sum_keys)) + len(rotations) + len(revocations) > MOST_STATEMENTS:
            raise AgreementError(f"There are more than {MOST_STATEMENTS} statements.", "Begin the file anew.")
        return cls(
            {name: value.hexadecimal(_SIGNATURE_DIGITS) for name, value in signatures.items()},
            tuple(map(_rotation, rotations)),
            tuple(map(_revocation, revocations)),
            {name: value.hexadecimal(2 * _KEY_DIGITS + _SIGNATURE_DIGITS) for name, value in sum_keys.items()},
        )

    def to_toml(self) -> str:
        """A TOML text; `Statements.from_toml` gives the same statements back."""
        revocations = [
            {"key": each.key, "time": each.time, "reason": each.reason, "signatures": dict(each.signatures)}
            for each in self.revocations
        ]
        document: dict[str, Any] = {"format": FORMAT, "signatures": dict(self.signatures)}
        document |= {"sum_keys": dict(self.sum_keys)} if self.sum_keys else {}
        document |= {"rotations": [dict(vars(each)) for each in self.rotations], "revocations": revocations}
        return tomli_w.dumps(document)

    @classmethod
    def load(cls, agreement_path: str | os.PathLike[str]) -> Statements:
        """The statements beside an agreement's file; none if there is no such file yet."""
        path = statements_path(agreement_path)
        return cls.from_toml(read_text(path, "The file of statements")) if path.exists() else cls()

    def save(self, agreement_path: str | os.PathLike[str]) -> None:
        """Write them beside an agreement's file; raise `AgreementError` and leave that as it was if they could not be read again."""
        text = self.to_toml()
        count = max(len(self.signatures), len(self.sum_keys)) + len(self.rotations) + len(self.revocations)
        if count > MOST_STATEMENTS or len(text.encode()) > LARGEST_DOCUMENT_BYTES:
            raise AgreementError(
                f"Together these are more than {MOST_STATEMENTS} statements or {LARGEST_DOCUMENT_BYTES >> 20} MiB; nothing was written.",
                "Add only files of members, and ask the sender of the largest what is in it.",
            )
        write_document(statements_path(agreement_path), text.encode())


@dataclass(frozen=True)
class SignatureStatus:
    """What the statements come to under an agreement."""

    keys: Mapping[str, bytes]
    signed: tuple[str, ...]
    missing: tuple[str, ...]
    invalid: tuple[str, ...]
    revoked: tuple[str, ...]
    without_sum_keys: tuple[str, ...]

    @property
    def is_in_force(self) -> bool:
        """Whether all have signed, with keys that count, and where members may leave their keys for sums as well."""
        return not (self.missing or self.invalid or self.revoked or self.without_sum_keys)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Those who have to sign, or to sign again."""
        return tuple(sorted({*self.missing, *self.invalid, *self.without_sum_keys}))


def signature_status(agreement: Agreement, statements: Statements) -> SignatureStatus:
    """Who has signed, and which key stands for each member, and for the relay, now; those whose key was revoked have none.

    Where members may leave, whoever has not signed its keys for sums could show each of the others different ones, and have one of them left out.
    """
    chains = _chains(agreement, statements)
    keys = {name: chains.current(name) for name in agreement.pinned_keys}
    good = set(_good_signatures(agreement, statements, chains))
    members = set(agreement.member_names)
    may_leave = agreement.threshold < len(members)
    with_sum_keys = _good_sum_keys(agreement, statements, chains).keys() if may_leave else good
    given = set(statements.signatures) & members
    return SignatureStatus(
        keys=MappingProxyType({name: bytes.fromhex(key) for name, key in keys.items() if key is not None}),
        signed=tuple(sorted(good)),
        missing=tuple(sorted(members - given)),
        invalid=tuple(sorted(given - good - chains.lost)),
        revoked=tuple(sorted(chains.lost)),
        without_sum_keys=tuple(sorted(good - with_sum_keys)),
    )


def is_signed_with(agreement: Agreement, statements: Statements, name: str, key: bytes) -> bool:
    """Whether the signature of a member over the agreement is one by this very key."""
    signature = bytes.fromhex(statements.signatures.get(name, ""))
    return verifies(key, _AGREEING, agreement.digest.encode(), signature)


def keys_in_force(agreement: Agreement, statements: Statements) -> Mapping[str, bytes]:
    """The public key in use of every member, and of the relay where it has one, if all members have signed and no key is revoked."""
    agreement.check_complete()
    found = signature_status(agreement, statements)
    if found.revoked:
        raise KeyRevoked(f"The key of {', '.join(found.revoked)} no longer counts.", KeyRevoked.help)
    if not found.is_in_force:
        unsigned = sorted((*found.missing, *found.invalid))
        digest, remedy = (
            agreement.digest[:12],
            "They sign with `sudare consortium sign` and send their file of statements.",
        )
        if unsigned:
            raise AgreementMismatch(f"The agreement {digest} is not signed by {', '.join(unsigned)}.", remedy)
        keyless = ", ".join(found.without_sum_keys)
        raise AgreementMismatch(f"The agreement {digest} has no keys for sums that are signed by {keyless}.", remedy)
    return found.keys


def keys_for_sums(agreement: Agreement, statements: Statements) -> dict[str, PublicKeys]:
    """Members' public keys for masks and votes, of those who signed them with the key that is theirs now. Raise IdentityError unless sums can be made with them."""
    good = _good_sum_keys(agreement, statements, _chains(agreement, statements))
    found = {name: PublicKeys(*_keys_in(content)) for name, content in good.items()}
    if found:
        try:
            Roster(tuple(found), tuple(found.values()))
        except InvalidParameter as error:
            raise IdentityError(
                f"Keys for sums that members signed cannot be used. {error.problem}",
                "Nothing was merged or begun. Ask them by telephone, and let who signed a key that is not its own sign a new agreement.",
            ) from None
    return found


class KeysInForce:
    """The keys in force when a process was started, compared with the statements beside the agreement whenever those were written.

    What was seen once counts on, whatever the file forgets. `for_sums` are the keys for masks and votes that members have signed, as far as they have.
    """

    def __init__(
        self, agreement: Agreement, agreement_path: Path, known: Statements | None = None, *, may_wait: bool = False
    ) -> None:
        """`known` are statements that were seen earlier. Raise as `keys_in_force` does; with `may_wait` not for revoked keys, of which `have_changed` tells when it is first asked."""
        self._agreement, self._path, self._seen = agreement, agreement_path, file_mark(statements_path(agreement_path))
        self.statements = Statements() if known is None else known
        self._read()
        found = signature_status(agreement, self.statements)
        if may_wait and found.revoked and not found.lacking:
            # Nothing is heard of those who lost theirs: a key that no longer counts stands in their place.
            pinned = {name: bytes.fromhex(key) for name, key in agreement.pinned_keys.items()}
            self.keys, self._seen = {**pinned, **found.keys}, ()
        else:
            self.keys = dict(keys_in_force(agreement, self.statements))
        self.for_sums = keys_for_sums(agreement, self.statements)

    def have_changed(self) -> bool:
        """Whether the file was written since this was asked last, and other keys count now. Raise as `keys_in_force` does."""
        seen = file_mark(statements_path(self._path))
        if seen == self._seen:
            return False
        self._seen = seen
        self._read()
        return dict(keys_in_force(self._agreement, self.statements)) != self.keys

    def lost(self) -> frozenset[str]:
        """Members, and the relay, whose keys no longer count by the statements that were seen."""
        return frozenset(signature_status(self._agreement, self.statements).revoked)

    def _read(self) -> None:
        self.statements = Statements.load(self._path).with_known(self.statements, self._agreement)


def file_mark(path: Path) -> tuple[int, ...]:
    """What changes whenever the file is written; the same where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def check_is_key_of(agreement: Agreement, statements: Statements, name: str, public_key: bytes) -> None:
    """Raise KeyRevoked or IdentityError unless the key is the current one of a member, or of the relay."""
    agreement.check_has_key(name)
    current = _chains(agreement, statements).current(name)
    if current is None:
        raise KeyRevoked(f"The key of {name} no longer counts.", KeyRevoked.help)
    if current != public_key.hex():
        raise IdentityError(
            f"This key is not the one that stands for {name} in the agreement.",
            "Use the right key, or rotate with `sudare key rotate`, or join anew.",
        )


@dataclass(frozen=True)
class KnownKeys:
    """All keys that ever stood for a member, by however many rotations, and whether they no longer count."""

    ever: frozenset[str]
    is_lost: bool


def keys_of(agreement: Agreement, statements: Statements) -> dict[str, KnownKeys]:
    """The keys, in hexadecimal, that ever stood for each member, and for the relay where it has one."""
    chains = _chains(agreement, statements)
    successors = _successors(statements, agreement.pinned_keys.values())
    return {
        name: KnownKeys(_reached_from(key, successors), name in chains.lost)
        for name, key in agreement.pinned_keys.items()
    }


def carried(statements: Statements, before: Statements) -> Statements:
    """Statements about a version, with the rotations and revocations that were made under the one before."""
    return replace(
        statements,
        rotations=(*statements.rotations, *before.rotations),
        revocations=(*statements.revocations, *before.revocations),
    )


def statements_to_keep(
    known: Statements, seen: Statements, agreement: Agreement, earlier: Iterable[Agreement]
) -> Statements:
    """What a member keeps of statements about an agreement that it has seen, with those that it has kept: what adds something, as in merging."""
    rotations, revocations = _news(known, seen, (agreement, *earlier))
    members = frozenset(agreement.member_names)
    return Statements(
        {name: each for name, each in seen.signatures.items() if name in members},
        (*known.rotations, *rotations),
        (*known.revocations, *revocations),
        {name: each for name, each in seen.sum_keys.items() if name in members},
    )


def statements_path(agreement_path: str | os.PathLike[str]) -> Path:
    """Returns the path of the statements about an agreement: beside it."""
    return Path(agreement_path).with_suffix(ENDING)


def now() -> str:
    """The time for people to read; nothing is decided by it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class _Chains:
    """The keys that each member and the relay have had, the pinned one first, and those of them whose chain no longer counts."""

    keys: Mapping[str, tuple[str, ...]]
    lost: frozenset[str]

    def current(self, name: str) -> str | None:
        """The key that stands for a member now."""
        return None if name in self.lost else self.keys[name][-1]


def _chains(agreement: Agreement, statements: Statements) -> _Chains:
    """The chains of rotations from the pinned keys; lost are those with a revoked key, one handed over twice, or one of two members.

    More statements never bring a lost member back: what counts against it only grows with them.
    """
    pinned = agreement.pinned_keys
    successors = _successors(statements, pinned.values())
    keys = {name: _chain_from(key, successors) for name, key in pinned.items()}
    reached = {name: _reached_from(key, successors) for name, key in pinned.items()}
    # Two successors: somebody else has the old key. A cycle: nobody knows which is the last.
    torn = {name for name, chain in keys.items() if chain[-1] in successors}
    owners: dict[str, set[str]] = {}
    for name, reach in reached.items():
        for key in reach:
            owners.setdefault(key, set()).add(name)
    # A key of two members: whoever has it speaks for both, and what it signed cannot be told apart.
    shared = {name for names in owners.values() if len(names) > 1 for name in names}
    revoked = _revoked_keys(agreement.revoking_members, statements.revocations, owners)
    return _Chains(keys, frozenset(torn | shared | {name for name, reach in reached.items() if revoked & reach}))


def _successors(statements: Statements, pinned: Iterable[str]) -> dict[str, set[str]]:
    """The keys that each key was handed over to, of those that pinned ones lead to."""
    by_old: dict[str, list[Rotation]] = {}
    for each in statements.rotations:
        by_old.setdefault(each.old, []).append(each)
    successors: dict[str, set[str]] = {}
    following = list(pinned)
    while following:
        old = following.pop()
        # Taken out, so that each is verified once, and those of strangers never.
        new = {each.new for each in by_old.pop(old, ()) if each.is_valid()}
        if new:
            successors[old] = new
            following.extend(new)
    return successors


def _chain_from(pinned: str, successors: Mapping[str, set[str]]) -> tuple[str, ...]:
    """A member's keys, as long as each has one successor that was not there before."""
    chain = [pinned]
    while len(successors.get(chain[-1], ())) == 1 and not successors[chain[-1]] & set(chain):
        chain.extend(successors[chain[-1]])
    return tuple(chain)


def _reached_from(pinned: str, successors: Mapping[str, set[str]]) -> frozenset[str]:
    """All keys that a member's pinned key was handed over to, by however many ways."""
    reached, following = {pinned}, [pinned]
    while following:
        new = successors.get(following.pop(), set()) - reached
        reached |= new
        following.extend(new)
    return frozenset(reached)


def _revoked_keys(needed: int, revocations: Iterable[Revocation], owners: Mapping[str, set[str]]) -> frozenset[str]:
    """Keys that were given up by themselves or by enough other members, whatever reason each gave."""
    signers: dict[str, set[str]] = {}
    for each in revocations:
        if each.key in owners:
            signers.setdefault(each.key, set()).update(each.signers(owners))
    revoked = set()
    for key, signed in signers.items():
        others = {name for each in signed for name in owners.get(each, ())} - owners[key] - {RELAY_NAME}
        if key in signed or len(others) >= needed:
            revoked.add(key)
    return frozenset(revoked)


def _news(
    known: Statements, told: Statements, versions: Iterable[Agreement]
) -> tuple[list[Rotation], list[Revocation]]:
    """Of what was told, the rotations and revocations that verify, are of keys that ever stood for somebody in one of these versions, and add something."""
    pinned = [each.pinned_keys for each in versions]
    rotations = _new_rotations({key for each in pinned for key in each.values()}, known, told)
    together = Statements(rotations=(*known.rotations, *rotations))
    known_keys, voices = set[str](), dict[str, set[str]]()
    for name, key in {pair for each in pinned for pair in each.items()}:
        reached = _reached_from(key, _successors(together, [key]))
        known_keys |= reached
        for each in reached if name != RELAY_NAME else ():
            voices.setdefault(each, set()).add(key)
    return rotations, _new_revocations(known_keys, voices, known, told)


def _new_rotations(pinned: Iterable[str], known: Statements, told: Statements) -> list[Rotation]:
    """The rotations that lead on from pinned keys, as many of one key and of one member as matter."""
    by_old: dict[str, list[Rotation]] = {}
    # What is known comes first, and is not crowded out.
    for each in (*known.rotations, *told.rotations):
        by_old.setdefault(each.old, []).append(each)
    kept: set[Rotation] = set()
    for key in pinned:
        reached, following = {key}, [key]
        while following and len(reached) <= _MOST_ROTATIONS:
            successors: dict[str, Rotation] = {}
            for each in by_old.get(following.pop(0), ()):
                if len(successors) < _MOST_SUCCESSORS and each.new not in successors and each.is_valid():
                    successors[each.new] = each
            kept |= set(successors.values())
            following += [new for new in successors if new not in reached]
            reached |= successors.keys()
    return sorted(kept - set(known.rotations))


def _new_revocations(
    known_keys: Container[str], voices: Mapping[str, set[str]], known: Statements, told: Statements
) -> list[Revocation]:
    """The revocations of known keys, with the signatures by which somebody says so who has not said it: the key itself, or a member.

    `voices` has the pinned keys that each key of a member goes back to: by them members are told apart in every version. The key's own voice is "".
    """

    def saying(each: Revocation, signer: str) -> set[str]:
        return {""} if signer == each.key else voices.get(signer, set())

    said: dict[str, set[str]] = {}
    for each in known.revocations:
        for signer in each.signers(voices):
            said.setdefault(each.key, set()).update(saying(each, signer))
    kept = []
    for each in told.revocations:
        if each.key not in known_keys:
            continue
        heard, new = said.setdefault(each.key, set()), dict[str, str]()
        for signer, signature in each.signatures.items():
            if saying(each, signer) - heard and replace(each, signatures={signer: signature}).signers(voices):
                new[signer] = signature
                heard |= saying(each, signer)
        if new:
            kept.append(replace(each, signatures=new))
    return kept


def _good_signatures(agreement: Agreement, statements: Statements, chains: _Chains) -> dict[str, str]:
    """Signatures over this agreement by the keys of its members."""
    text, members = agreement.digest.encode(), frozenset(agreement.member_names)
    # A rotation does not undo what the key before it has signed.
    return {
        name: signature
        for name, signature in statements.signatures.items()
        if name in members
        and name not in chains.lost
        and any(verifies(bytes.fromhex(key), _AGREEING, text, bytes.fromhex(signature)) for key in chains.keys[name])
    }


def _signed_sum_keys(agreement: Agreement, identity: Identity) -> str:
    """A member's public keys for sums under an agreement, with its signature."""
    public = identity.member_keys(bytes.fromhex(agreement.digest)).public
    keys = public.exchange + public.signing
    return (keys + identity.sign(_SUMMING, _sum_keys_text(agreement, keys.hex()))).hex()


def _sum_keys_text(agreement: Agreement, keys: str) -> bytes:
    """What is signed."""
    return canonical_json({"agreement": agreement.digest, "keys": keys}).encode()


def _keys_in(content: str) -> tuple[bytes, bytes]:
    return bytes.fromhex(content[:_KEY_DIGITS]), bytes.fromhex(content[_KEY_DIGITS : 2 * _KEY_DIGITS])


def _good_sum_keys(agreement: Agreement, statements: Statements, chains: _Chains) -> dict[str, str]:
    """Keys for sums under this agreement that members signed with the key that is theirs now: those that the key before it derived are gone with it."""
    good, members = {}, frozenset(agreement.member_names)
    for name, content in statements.sum_keys.items():
        key = chains.current(name) if name in members else None
        keys, signature = content[: 2 * _KEY_DIGITS], bytes.fromhex(content[2 * _KEY_DIGITS :])
        if key is not None and verifies(bytes.fromhex(key), _SUMMING, _sum_keys_text(agreement, keys), signature):
            good[name] = content
    return good


def _rotation(item: Field) -> Rotation:
    key, signature = hexadecimal(64), hexadecimal(128)
    readers = {"old": key, "new": key, "time": Field.text, "signature_by_old": signature, "signature_by_new": signature}
    return item.built(Rotation, readers)


def _revocation(item: Field) -> Revocation:
    readers = {"key": hexadecimal(64), "time": Field.text, "reason": Field.text, "signatures": _signatures_by_key}
    return item.built(Revocation, readers)


def _signatures_by_key(field: Field) -> dict[str, str]:
    if not isinstance(field.value, Mapping) or len(field.value) > MOST_STATEMENTS:
        raise field.refused("a table of signatures by public key")
    return {
        Field("key", key).hexadecimal(64): Field("signature", each).hexadecimal(128)
        for key, each in field.value.items()
    }
