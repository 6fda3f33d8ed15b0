"""`sudare inspect`: the privacy card of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import AsJson, answer, reported
from sudare.cli.language import spoken_language
from sudare.cli.options import TrustedKeys

if TYPE_CHECKING:
    from sudare.privacy import Release
    from sudare.report.privacy_card import Signature


@reported
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release, usually NAME.sudare.")],
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Print the privacy card of a release: what is promised, to whom, and who signed it. Nothing in the file is executed."""
    from sudare.report.privacy_card import card_strength, card_text

    release, signature = read_release(file, trusted)
    card = release.card(signature)
    strength = card_strength(card)
    values: dict[str, Any] = {
        "file": str(file),
        "signature": signature,
        "signed_by": release.signed_by,
        "digest": release.digest,
        "strength": {"word": strength.word, "reason": strength.reason},
        "manifest": release.manifest(),
    }
    if release.learner == "RecordPerturbation":
        # A promise about perturbed records is told in all three ways, or not at all; its rows are for `sudare reconstruct`.
        statement = release.model().statement()
        answer(
            {**values, "statement": statement.to_dict()}, as_json, card_text(card, spoken_language()), str(statement)
        )
        return
    tensors = {name: tensor.tolist() for name, tensor in release.content.tensors.items()}
    answer({**values, "tensors": tensors}, as_json, card_text(card, spoken_language()))


def read_release(file: Path, trusted: list[Path] | None) -> tuple[Release, Signature]:
    """The release, and whether a key that the reader named has signed it; a signature that is wrong is refused anyway."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sudare.cli.key_files import public_key
    from sudare.privacy import Release
    from sudare.privacy.release import audited, read
    from sudare.privacy.release_file import verify_signature

    if trusted:
        return Release.load(file, trusted=[public_key(path) for path in trusted]), "trusted"
    content = read(file)
    verify_signature(content, [Ed25519PublicKey.from_public_bytes(content.public_key)])
    return audited(content), "unchecked"


def signature_lines(signature: str) -> list[str]:
    """A warning, if nobody looked whose the release is."""
    return [] if signature == "trusted" else ["The signature was NOT CHECKED against a key you trust; give --trusted."]
