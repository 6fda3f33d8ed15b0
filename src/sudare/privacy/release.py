"""Charge before noise, entry before file: a charge is entered before any noise is drawn, a release before its file is written.

`pass_through` is the only place where learners get noise. `Release` is the only way out: it takes a charged, unchanged
learner, writes a line to the ledger, and then the file, which appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sudare import files
from sudare.errors import (
    InvalidCost,
    NotCharged,
    NotReleasable,
    RelationMismatch,
    ReleaseError,
    ReleaseExists,
    ReleaseMalformed,
    ReleaseVersion,
    SchemaError,
    SeededNoiseRefused,
    SourceUnreadable,
    UnknownName,
)
from sudare.parsing import opened_without_waiting
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.learner_registry import LEARNERS, learner_class, pays_for
from sudare.privacy.ledger import Account, Ledger, Result
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.noise import NoiseSource, SystemNoise, noise_source
from sudare.privacy.release_content import Content, on_grid, sealed, unfit
from sudare.privacy.release_file import (
    LARGEST_FILE_BYTES,
    Parsed,
    Tensors,
    fingerprint,
    parsed,
    verify_signature,
    written,
)
from sudare.privacy.source_identity import SliceIdentity, Source
from sudare.report.privacy_card import Card, Signature, card_of

FORMAT: Final = 1
NOT_CHARGED: Final = "this model was fitted without an account, so it may not leave."
_FIELDS: Final = ("format", "guarantee", "learner", "parameters", "receipt", "schema", "tensors", "versions")

# As PEP 440 has them, with a short local part: a card prints them, and a text of any kind could say something else there.
_VERSION: Final = re.compile(
    r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[0-9a-z.]{1,16})?", re.ASCII
)
_LONGEST_VERSION: Final = 64


@dataclass(frozen=True)
class Passage:
    """What a fit gets for its charge: noise, the guarantee that may be stated for what it makes with it, and the receipt."""

    noise: NoiseSource
    guarantee: Guarantee
    receipt: Receipt | None


def pass_through(
    account: Account | None,
    random_state: int | np.random.RandomState | None,
    guarantee: Guarantee,
    cost: Cost,
    what: str,
    purpose: str = "",
    source: Source | None = None,
    answers: SliceIdentity | None = None,
) -> Passage:
    """Charge the account, then hand out noise. Without an account nothing is charged, and nothing made with it may leave.

    `source` is what will be read, where that is known: an account pays for no other one than its own. `answers` are the first ones of a collection, where others are
    given again.
    """
    if account is None:
        noise = noise_source(random_state)
        return Passage(noise, void_if_seeded(guarantee, noise), None)
    if random_state is not None:
        raise SeededNoiseRefused("A fit was given both an account and a random_state.", SeededNoiseRefused.help)
    charged = account.charge(guarantee, cost, what, purpose, source, answers)
    return Passage(SystemNoise(), charged.guarantee, charged.receipt)


def pass_again(account: Account, receipt: Receipt, what: str) -> Passage:
    """Noise for what a receipt shows to be charged already: how what was interrupted goes on without paying twice.

    Whoever comes again either repeats its noise or never let out what it made with it: of one charge the ledger enters
    one result, and no other one.
    """
    charge = account.ledger.charge_of(receipt)
    if charge is None or (charge.account, charge.body["what"]) != (account.name, what):
        raise NotCharged("The ledger does not have the charge that this training was begun with.", "Begin a new one.")
    return Passage(SystemNoise(), Guarantee.from_dict(charge.body["guarantee"]), receipt)


def void_if_seeded(guarantee: Guarantee, noise: NoiseSource) -> Guarantee:
    """The guarantee, not valid where the noise is seeded."""
    return guarantee if noise.valid else replace(guarantee, valid=False)


def enter_result(model: Any) -> None:
    """Enter what a charged fit computed, so that nothing else can leave for its charge. Raise NotCharged if it paid for another.

    What can never be released, or was not charged, is not entered.
    """
    name, account, receipt = type(model).__name__, model.account, model.receipt_
    if receipt is None or account is None or not is_learner(model):
        return
    charge = account.ledger.charge_of(receipt)
    if charge is None or not pays_for(charge.body["what"], name):
        raise NotCharged(f"The charge behind this fit is not one for a {name}.", "Refit with account=….")
    account.ledger._enter_result(receipt, model.guarantee_, result_of(model), model._answer_step)


def enter_shown(name: str, content: Content, passage: Passage, account: Account | None) -> str:
    """Returns the seal of what a training that is never released has shown; a charged one is entered, so that what begins from it later can be told from anything else.

    Raise NotReleasable for the name of a learner whose results may leave: its own fit enters them.
    """
    if name in LEARNERS:
        raise NotReleasable(
            f"'{name}' is the name of a learner that can be released.", "Name your own class otherwise."
        )
    seal = sealed(content, passage.guarantee, passage.receipt, None)
    if account is not None and passage.receipt is not None:
        account.ledger._enter_result(passage.receipt, passage.guarantee, Result(name, content.digest(), seal))
    return seal


def result_of(model: Any) -> Result:
    """What the ledger is told of a sealed learner. A release is compared with it, its seal computed anew."""
    return Result(type(model).__name__, model.release_content().digest(), model.seal_)


def check_unchanged(model: Any, content: Content) -> None:
    """Raise NotCharged unless a learner with this content is as its fit left it."""
    if sealed(content, model.guarantee_, model.receipt_, model.schema_digest_) != model.seal_:
        raise NotCharged(
            f"This {type(model).__name__} was changed after it was fitted.",
            "Refit it with account=…; release it as it is.",
        )


def is_learner(model: Any) -> bool:
    """Whether an object is of a listed class itself, with its methods: a derived class, or a method put into the object, may compute anything."""
    name = type(model).__name__
    return name in LEARNERS and type(model) is learner_class(name) and not replaced_methods(model)


def replaced_methods(model: object) -> list[str]:
    """The methods of an object's class in whose place the object has an attribute of its own."""
    found = ((name, inspect.getattr_static(type(model), name, None)) for name in vars(model))
    return [name for name, method in found if inspect.isroutine(method) or hasattr(type(method), "__get__")]


@dataclass(frozen=True)
class Release:
    """A payload with its guarantee and the receipt of the entry that was written before it was computed."""

    learner: str
    content: Content
    guarantee: Guarantee
    receipt: Receipt
    schema_digest: str | None
    versions: Mapping[str, str]
    digest: str | None = None
    signed_by: str | None = None
    _ledger: Ledger | None = field(default=None, repr=False, compare=False)
    # Seal and digest of the file, set by `load` only; `dataclasses.replace` does not carry them over.
    _loaded: tuple[str, str | None] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, model: Any) -> Release:
        """The release of a fitted, charged and unchanged learner. Nothing is written yet."""
        name = type(model).__name__
        if not is_learner(model):
            raise NotReleasable(f"A {name} can never be released.", NotReleasable.help)
        # A learner has loaded scikit-learn; who only reads releases need not.
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
        receipt, account, guarantee = model.receipt_, model.account, model.guarantee_
        if receipt is None or not isinstance(account, Account):
            raise NotCharged(NOT_CHARGED, "Refit with account=….")
        content = model.release_content().kept()
        check_unchanged(model, content)
        if not guarantee.valid:
            raise NotReleasable(
                "The model's guarantee is not valid: something in it came from the data.",
                "Declare bounds and classes, then refit.",
            )
        if account.ledger.promised(receipt) != guarantee:
            raise NotCharged(
                "The ledger does not have the charge that this model's receipt names.", "Refit with account=…."
            )
        release = cls(
            learner=name,
            content=content,
            guarantee=guarantee,
            receipt=receipt,
            schema_digest=model.schema_digest_,
            versions=_installed(),
            _ledger=account.ledger,
        )
        release._check_is_result(account.ledger)
        return release

    @property
    def beside_digest(self) -> str | None:
        """The SHA-256 of the file that left beside it; None where none did."""
        # Rows that a release holds itself are its tensor.
        return None if self.content.tensors else self._named_digest

    @property
    def _named_digest(self) -> str | None:
        """The digest of a file, by the one parameter that its learner has for it; None where it has none."""
        name = learner_class(self.learner).beside_digest
        return None if name is None else str(self.content.parameters[name])

    def manifest(self) -> dict[str, Any]:
        """The allow-list: nothing but these fields ever leaves with a payload."""
        grids = self.content.grids
        return {
            "format": FORMAT,
            "learner": self.learner,
            "parameters": dict(self.content.parameters),
            "schema": self.schema_digest,
            "guarantee": self.guarantee.to_dict(),
            "receipt": self.receipt.to_dict(),
            "versions": dict(self.versions),
            "tensors": {name: None if grid is None else math.frexp(grid)[1] - 1 for name, grid in grids.items()},
        }

    def save(self, path: str | os.PathLike[str], key: Ed25519PrivateKey) -> None:
        """Enter the release in the ledger, then write the signed file: whole or not at all, never over another.

        What the bytes of the file say is compared with the ledger: they must be the result of the charge that they name.
        """
        ledger = self._ledger
        if type(ledger) is not Ledger:
            raise NotReleasable(
                "This release was loaded from a file.", "Pass the file itself on; its signature goes with it."
            )
        target = Path(path)
        beside = self.content.beside
        for path_to_write in (target, *([] if beside is None else [target.with_suffix(beside.suffix)])):
            if os.path.lexists(path_to_write):
                raise _exists(path_to_write)
        file = written(self.manifest(), self.content.tensors, key)
        # What a reader would refuse must not leave, and must not be entered as having left.
        leaving = audited(parsed(file))
        leaving._check_is_result(ledger)
        if leaving.versions != _installed():
            raise NotCharged(
                "This release names other versions than those installed.", "Make it with Release.of(model)."
            )
        ledger.enter_release(leaving.receipt, leaving.content.digest())
        if beside is not None:
            # First this: a release that names a file which is not there would help nobody.
            write_new(target.with_suffix(beside.suffix), beside.pieces(), {leaving._named_digest or ""})
        write_new(target, [file])

    def _check_is_result(self, ledger: Ledger) -> None:
        """Raise NotCharged unless this is what the ledger knows to be computed for exactly this promise, by this learner."""
        seal = sealed(self.content, self.guarantee, self.receipt, self.schema_digest)
        if ledger.result_of(self.receipt) != Result(self.learner, self.content.digest(), seal):
            raise NotCharged(
                "The ledger knows no charge whose result this is.",
                "Release a model as it was fitted. One of an earlier version of sudare must be fitted again.",
            )

    def check_entered(self, ledger: Ledger) -> None:
        """Raise NotCharged unless this very content left by this ledger, charged for this promise. For owners: others have no ledger."""
        if (
            ledger.promised(self.receipt) != self.guarantee
            or ledger.released_content(self.receipt) != self.content.digest()
        ):
            raise NotCharged(
                "The ledger did not enter this content as the release of a charge for this guarantee.",
                "Find out who made the file: the ledger's owner did not, or not in this way.",
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str], trusted: Iterable[Ed25519PublicKey]) -> Release:
        """The release in a file signed by a trusted key: parsed, then audited, and nothing in it executed."""
        content = read(path)
        verify_signature(content, trusted)
        release = audited(content)
        object.__setattr__(release, "_loaded", release._as_it_is())
        return release

    def _as_it_is(self) -> tuple[str, str | None]:
        """A digest of all that a model is made from, computed anew, and that of the file."""
        return sealed(self.content, self.guarantee, self.receipt, self.schema_digest), self.digest

    def card(self, signature: Signature | None = None) -> Card:
        """The privacy card; `card_text` of `sudare.report` writes it.

        `signature` says whether a key that the reader named has signed the file. Without it, what was loaded was (`load` lets nothing else in),
        and what was never saved was not.
        """
        if signature is None:
            signature = "unchecked" if self.signed_by is None else "trusted"
        learner, content = learner_class(self.learner), self.content
        sizes, remarks = learner.released_sizes(content), learner.card_remarks(content.parameters)
        return card_of(
            self.manifest(), sizes, remarks, signature=signature, signed_by=self.signed_by, digest=self.digest
        )

    def model(self) -> Any:
        """The learner, fitted with the released numbers and nothing else."""
        model = learner_class(self.learner).from_release(self.content, self.schema_digest)
        model.guarantee_, model.receipt_, model.seal_ = self.guarantee, self.receipt, None
        return model


def is_loaded(release: object) -> bool:
    """Whether an object is what `Release.load` returned: not a copy with other fields, not changed since, and not of a derived class."""
    return (
        type(release) is Release
        and type(release.content) is Content
        and not replaced_methods(release)
        and not replaced_methods(release.content)
        and release._loaded == release._as_it_is()
    )


def read(path: str | os.PathLike[str]) -> Parsed:
    """The parsed content of a file, whose kind and size are looked at before it is read."""
    try:
        with open(path, "rb", opener=opened_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SourceUnreadable(f"'{Path(path).name}' is not a file.", "Give the path of a release.")
            if status.st_size > LARGEST_FILE_BYTES:
                raise ReleaseMalformed(
                    f"The file is larger than {LARGEST_FILE_BYTES >> 20} MiB.", ReleaseMalformed.help
                )
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise SourceUnreadable(f"'{Path(path).name}' cannot be read ({error.strerror}).", "Check the path.") from None
    return parsed(content)


def audited(content: Parsed) -> Release:
    """The release that a manifest describes, if every field has the type and the range it must have."""
    manifest = content.manifest
    if "format" in manifest and (type(manifest["format"]) is not int or manifest["format"] != FORMAT):
        raise ReleaseVersion(f"The file has a format other than {FORMAT}.", ReleaseVersion.help)
    if tuple(sorted(manifest)) != _FIELDS:
        raise unfit("its manifest has other fields than it should")
    learner, schema_digest = manifest["learner"], manifest["schema"]
    if not isinstance(learner, str):
        raise unfit("its learner has no name")
    if schema_digest is not None:
        schema_digest = _hexadecimal(schema_digest, 64, "schema")
    grids = _grids(manifest["tensors"], content.tensors)
    released = Content(_json_fields(manifest["parameters"], "parameters"), content.tensors, grids)
    try:
        promised = learner_class(learner).check_content(released, schema_digest)
        guarantee = Guarantee.from_dict(_json_fields(manifest["guarantee"], "guarantee"))
        if not _is_same_promise(guarantee, promised):
            raise unfit("its guarantee is not the one that its parameters give")
    except UnknownName as error:
        raise ReleaseVersion(error.problem, ReleaseVersion.help) from None
    except (InvalidCost, RelationMismatch, SchemaError) as error:
        raise unfit(error.problem.rstrip(".")) from None
    _check_grids(released)
    return Release(
        learner=learner,
        content=released,
        guarantee=guarantee,
        receipt=_receipt(_json_fields(manifest["receipt"], "receipt")),
        schema_digest=schema_digest,
        versions=_versions(_json_fields(manifest["versions"], "versions")),
        digest=content.digest,
        signed_by=fingerprint(content.public_key),
    )


def _is_same_promise(stated: Guarantee, promised: Guarantee) -> bool:
    """Whether two promises are one, in the stated relation.

    Of a converted δ only limits are known here: of Gaussian noise a ledger knows more than of any other (ε, δ), and
    machines may differ in last digits.
    """
    converted = promised.to(stated.neighbours)
    return (
        math.isclose(stated.epsilon, converted.epsilon, rel_tol=1e-9)
        and promised.delta <= stated.delta <= converted.delta * (1 + 1e-9)
        and stated == replace(converted, epsilon=stated.epsilon, delta=stated.delta)
    )


def _check_grids(content: Content) -> None:
    """Raise ReleaseMalformed unless floats are finite and on their grid: stray low bits would tell more than the guarantee covers."""
    for name, tensor in content.tensors.items():
        if (content.grids[name] is None) != (tensor.dtype.kind != "f"):
            raise unfit(f"tensor '{name}' has a grid of the wrong kind")
        if content.grids[name] is None:
            continue
        if not np.all(np.isfinite(tensor)) or on_grid(tensor, content.grid(name)).tobytes() != tensor.tobytes():
            raise unfit(f"tensor '{name}' is not on its public grid")


def _json_fields(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unfit(f"its '{name}' is not a list of fields")
    return value


def _grids(exponents: object, tensors: Tensors) -> dict[str, float | None]:
    if not isinstance(exponents, dict) or set(exponents) != set(tensors):
        raise unfit("its tensors are not those its manifest names")
    if not all(
        exponent is None or (type(exponent) is int and -1074 <= exponent <= 1023) for exponent in exponents.values()
    ):
        raise unfit("a grid is not a power of two")
    return {name: None if exponent is None else math.ldexp(1.0, exponent) for name, exponent in exponents.items()}


def _hexadecimal(value: object, length: int, name: str) -> str:
    if not isinstance(value, str) or len(value) != length or set(value) - set("0123456789abcdef"):
        raise unfit(f"its {name} is not {length} hexadecimal digits")
    return value


def _receipt(values: Mapping[str, Any]) -> Receipt:
    if set(values) != {"ledger", "position", "hash", "account"}:
        raise unfit("its receipt has other fields than it should")
    position, account = values["position"], values["account"]
    if (
        type(position) is not int
        or not 0 < position < 2**63
        or not isinstance(account, str)
        or not 0 < len(account) <= 256
    ):
        raise unfit("its receipt has a field of the wrong type")
    return Receipt(
        _hexadecimal(values["ledger"], 32, "ledger"), position, _hexadecimal(values["hash"], 64, "hash"), account
    )


def _versions(values: Mapping[str, Any]) -> dict[str, str]:
    if set(values) != {"opendp", "sudare"} or not all(
        isinstance(text, str) and len(text) <= _LONGEST_VERSION and _VERSION.fullmatch(text) for text in values.values()
    ):
        raise unfit("its library versions are not written as versions are")
    return dict(values)


def _installed() -> dict[str, str]:
    return {package: version(package) for package in ("opendp", "sudare")}


def _exists(target: Path) -> ReleaseExists:
    return ReleaseExists(f"'{target.name}' exists already.", ReleaseExists.help)


def write_new(target: Path, pieces: Iterable[bytes], digests: Collection[str] | None = None) -> None:
    """A file of these pieces under its final name, durable and complete, or not there at all. Only for what is released.

    Where digests are given, one of them must be the SHA-256 of all pieces: else NotCharged is raised, and there is no file.
    """
    try:
        files.write_new(target, pieces if digests is None else _named_pieces(pieces, digests))
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        raise ReleaseError(
            f"'{target.name}' cannot be written ({error.strerror}).", "Check folder, rights and space."
        ) from None


def _named_pieces(pieces: Iterable[bytes], digests: Collection[str]) -> Iterator[bytes]:
    """The pieces. Raise NotCharged after the last one unless the SHA-256 of all of them is among the digests."""
    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
        yield piece
    if hashed.hexdigest() not in digests:
        raise NotCharged("The file beside this release is not the one it names.", NotCharged.help)
