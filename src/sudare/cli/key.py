"""`sudare key`: make, show, rotate and revoke the key that a member signs with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.command_output import AsJson, DryRun, answer, reported, write_new_text
from sudare.cli.key_files import MemberFile, PassphraseFile, passphrase

app = typer.Typer(help="Make, show, rotate and revoke a member's key.", no_args_is_help=True)

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The encrypted private key (PEM).")]


@app.callback()
def key() -> None:
    """Make, show, rotate and revoke a member's key."""


@app.command("new")
@reported
def new(
    file: KeyFile,
    public: Annotated[
        Path | None, typer.Option("--public", metavar="FILE", help="Write the public key (PEM) to a new file, too.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Make an Ed25519 key, encrypted under a passphrase, in a new file that only you can read."""
    from sudare.consortium import Identity

    identity = Identity.generated()
    identity.save(file, passphrase(passphrase_file, f"New passphrase of {file.name}", new=True))
    if public is not None:
        write_new_text(public, identity.public_pem().decode())
    values = {"file": str(file), "public_key": identity.public_key.hex(), "fingerprint": identity.fingerprint}
    answer(values, as_json, f"Wrote {file}. Fingerprint: {identity.fingerprint}")


@app.command("show")
@reported
def show(file: KeyFile, passphrase_file: PassphraseFile = None, as_json: AsJson = False) -> None:
    """The public key that belongs to a key, and its fingerprint to read out on the telephone."""
    from sudare.consortium import Identity

    identity = Identity.load(file, passphrase(passphrase_file, f"Passphrase of {file.name}"))
    values = {"file": str(file), "public_key": identity.public_key.hex(), "fingerprint": identity.fingerprint}
    answer(values, as_json, identity.public_pem().decode().rstrip(), f"Fingerprint: {identity.fingerprint}")


@app.command("rotate")
@reported
def rotate(
    member: MemberFile = Path("member.toml"),
    passphrase_file: PassphraseFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a new key in place of the old one, which signs that the new one follows it. The agreement need not be signed again."""
    from sudare.consortium import Member
    from sudare.consortium.agreement.consortium_setup_steps import rotated
    from sudare.consortium.agreement.signed_statements import statements_path

    own = Member.load(member)
    phrase = passphrase(passphrase_file, f"Passphrase of {own.key_path.name}")
    if dry_run:
        old = own.identity(phrase).fingerprint
        values = {"member": own.name, "old": old, "dry_run": True}
        answer(values, as_json, f"The key {old} would be replaced.", "Dry run: nothing was changed.")
        return
    change = rotated(own, phrase)
    file = statements_path(own.agreement_path)
    values = {
        "member": own.name,
        "old": change.old.fingerprint,
        "new": change.new.fingerprint,
        "kept": str(change.kept),
        "statements": str(file),
        "dry_run": False,
    }
    lines = [
        f"{own.name} now signs with {change.new.fingerprint}; the old key is kept as {change.kept.name}.",
        f"Send {file.name} to the other members; they add it with: sudare consortium check AGREEMENT --add {file.name}",
    ]
    answer(values, as_json, *lines)


@app.command("revoke")
@reported
def revoke(
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; all members will read it.")],
    member: MemberFile = Path("member.toml"),
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            metavar="MEMBER",
            help="Another member's key, or that of the relay; counts once as many members say so as must stay in a sum.",
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Say that a key no longer counts, from now on and for ever: your own at once, another member's if enough say so."""
    from sudare.consortium import Identity, Member, signature_status
    from sudare.consortium.agreement.consortium_setup_steps import revoked
    from sudare.consortium.agreement.signed_statements import statements_path

    own = Member.load(member)
    agreement, whose = own.agreement(), of or own.name
    agreement.check_has_key(whose)
    before = signature_status(agreement, own.statements())
    phrase = passphrase(passphrase_file, f"Passphrase of {own.key_path.name}")
    identity = Identity.load(own.key_path, phrase) if of is None else own.identity(phrase)
    # Of the own key it is the one in the file that is given up, whichever stands in the agreement.
    target = identity.public_key if of is None else before.keys.get(whose)
    values = {"member": whose, "already_revoked": target is None, "dry_run": dry_run}
    if dry_run or target is None:
        text = "That key no longer counts already." if target is None else "Dry run: nothing was changed."
        answer(values, as_json, text)
        return
    revoked(own, identity, target.hex(), reason)
    statements = own.statements()
    counts = whose in signature_status(agreement, statements).revoked
    signatures = {signer for each in statements.revocations if each.key == target.hex() for signer in each.signatures}
    values |= {"key": target.hex(), "signatures": len(signatures), "counts": counts}
    file = statements_path(own.agreement_path).name
    text = (
        f"The key of {whose} no longer counts."
        if counts
        else f"Said by {len(signatures)}; it counts once {agreement.revoking_members} other members have said so."
    )
    answer(values, as_json, text, f"Send {file} to the other members.")
