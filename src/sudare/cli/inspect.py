"""`sudare inspect`: the privacy card of a release."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, reported
from sudare.cli.language import spoken_language
from sudare.cli.options import TrustedKeys
from sudare.errors import InvalidParameter, ReleaseMalformed

if TYPE_CHECKING:
    from sudare.privacy import Release
    from sudare.report.privacy_card import Signature


@reported
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release, usually NAME.sudare.")],
    trusted: TrustedKeys = None,
    dossier: Annotated[
        Path | None,
        typer.Option(
            "--dossier",
            metavar="DIR",
            help="Write what a legal department needs into a new folder: a statement in English and Japanese, a draft for the public registry of deployments, proofs, audits, receipt.",
        ),
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(
            "--about",
            metavar="FILE",
            help="Of a dossier: TOML with what the file does not know (name, curator, curator_type, intended_use, region, sector, date, author).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the privacy card of a release: what is promised, to whom, and who signed it. Nothing in the file is executed."""
    from sudare.report.privacy_card import card_strength, card_text

    if about is not None and dossier is None:
        raise InvalidParameter("--about is for a dossier.", "Give --dossier DIR as well, or leave --about out.")
    release, signature = read_release(file, trusted)
    if dossier is not None:
        _write_dossier(release, signature, dossier, about, as_json)
        return
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


def _write_dossier(release: Release, signature: Signature, folder: Path, about: Path | None, as_json: bool) -> None:
    """Write the dossier, and say what is in it and what a person has still to fill in."""
    from sudare.dossier.facts_from_release import facts_of
    from sudare.dossier.folder import write_dossier
    from sudare.dossier.registry_entry import Publication

    facts = facts_of(release, signature)
    publication = Publication() if about is None else Publication.of(_document(about))
    names = write_dossier(folder, facts, publication, spoken_language())
    values = {
        "folder": str(folder),
        "files": names,
        "kind": facts.kind,
        "strength": facts.strength.word,
        "signature": signature,
        "to_fill_in": publication.missing,
    }
    missing = (
        [f"The registry's draft lacks: {', '.join(publication.missing)} (--about)."] if publication.missing else []
    )
    lines = [f"Wrote {folder / name}" for name in names]
    answer(values, as_json, *lines, *missing, *signature_lines(signature), "It is not legal advice.")


def _document(path: Path) -> dict[str, Any]:
    """A small TOML file. Raise InvalidParameter where it cannot be read or is none."""
    from sudare.parsing import bounded_bytes, parsed_toml

    try:
        return parsed_toml(bounded_bytes(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidParameter(f"'{path}' cannot be read ({reason}).", "Give a TOML file with texts.") from None


def read_release(file: Path, trusted: list[Path] | None) -> tuple[Release, Signature]:
    """The release, and whether a key that the reader named has signed it; a signature that is wrong is refused anyway."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sudare.cli.key_files import public_key
    from sudare.privacy import Release
    from sudare.privacy.release import audited, read
    from sudare.privacy.release_file import verify_signature

    check_is_no_own_model(file)
    if trusted:
        return Release.load(file, trusted=[public_key(path) for path in trusted]), "trusted"
    content = read(file)
    verify_signature(content, [Ed25519PublicKey.from_public_bytes(content.public_key)])
    return audited(content), "unchecked"


def check_is_no_own_model(file: Path) -> None:
    """Raise ReleaseMalformed where a file is what `sudare combine` wrote: a model for its owner, and no release."""
    from sudare.experts.combined_model_file import is_combined_model

    # What cannot be read is told by whoever reads it; a pipe is not waited for.
    with contextlib.suppress(OSError):
        if file.is_file() and is_combined_model(file):
            raise ReleaseMalformed(
                f"'{file.name}' is a combined model for its owner, and no release.", "Use it with `sudare predict`."
            )


def signature_lines(signature: str) -> list[str]:
    """A warning, if nobody looked whose the release is."""
    return [] if signature == "trusted" else ["The signature was NOT CHECKED against a key you trust; give --trusted."]
