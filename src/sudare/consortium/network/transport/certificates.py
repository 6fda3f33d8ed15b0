"""Certificates for the way to the relay: one authority, one for the relay, one for each member, in the layout of FLARE's kits.

A kit that `nvflare provision` made can be used instead: KIT/startup/{rootCA.pem, client.crt, client.key}, or server.crt and
server.key for the relay. These certificates only open the line. Who a member is, is proved inside it by the agreement's keys.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from sudare.errors import IdentityError, InvalidParameter, NotConnected
from sudare.files import SHARED_MODE, check_private, make_private_folder, read_private, write_new

# FLARE's envelope around every message has room for keys and signatures of exactly this size.
_KEY_BITS: Final = 2048
_VALID_DAYS: Final = 360
# Valid from a little before they are made, for members whose clocks are behind.
_VALID_BEFORE_DAYS: Final = 2
_ROOT: Final = "rootCA.pem"
_KEPT_NAME: Final = "relay-authority"
# A common name has 64 letters at most.
_HOST: Final = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,63}")


class _Authority:
    """Whoever runs the relay. Its key is forgotten once the kits are written, unless it is kept in a file for kits that work beside these."""

    def __init__(self, name: str, key: rsa.RSAPrivateKey | None = None) -> None:
        self._key = rsa.generate_private_key(65537, _KEY_BITS) if key is None else key
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = self._begun(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    def issued(self, name: str) -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
        """A certificate for a member or host, with its key."""
        key = rsa.generate_private_key(65537, _KEY_BITS)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternative = x509.SubjectAlternativeName([_general_name(name)])
        builder = self._begun(subject, key.public_key()).add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256()), key

    def _begun(self, subject: x509.Name, public_key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=public_key)
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=_VALID_BEFORE_DAYS))
            .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def write_kits(
    folder: Path, host: str, members: Iterable[str], collector: str | None = None, authority_path: Path | None = None
) -> list[Path]:
    """One kit for the relay at that host and one for each member, as folders below this one. The first is the relay's.

    A relay that collects sums connects to itself as members do, under the name `collector`: inside its kit is one for that.
    Kits of one authority, whose key is kept at `authority_path`, work together whenever and for whichever host they were made.
    """
    if not _HOST.fullmatch(host):
        raise InvalidParameter(
            "The relay's host is not a name or address of a machine.", "Use for example relay.example."
        )
    authority = _Authority(f"relay of {host}"[:64]) if authority_path is None else _kept_authority(authority_path)
    kits = [_write_kit(folder / "relay", authority, host, "server")]
    if collector is not None:
        _write_kit(collector_kit(kits[0]), authority, collector, "client")
    return kits + [_write_kit(folder / name, authority, name, "client") for name in members]


def _kept_authority(path: Path) -> _Authority:
    """The authority whose key is in a file; made and written the first time. Its name does not change with the relay's host."""
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    if path.exists():
        try:
            key = serialization.load_pem_private_key(read_private(path, "The authority's key"), None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise InvalidParameter(
                f"'{path.name}' is not the key of an authority for kits.",
                "Give the file that --authority wrote before.",
            )
        return _Authority(_KEPT_NAME, key)
    key = rsa.generate_private_key(65537, _KEY_BITS)
    write_new(path, key.private_bytes(encoding, private, serialization.NoEncryption()))
    return _Authority(_KEPT_NAME, key)


def collector_kit(relay_kit: Path) -> Path:
    """The kit with which a relay that collects connects to itself: FLARE takes a folder with two certificates for the server's."""
    return relay_kit / "collector"


def kit_files(kit: Path, role: str) -> dict[str, str]:
    """Paths of a kit's root, certificate and key, by the names that FLARE gives them; an error if one is not there.

    Raises `IdentityError` where others may read the key: FLARE itself would not look.
    """
    files = _paths(kit, role)
    check_private(Path(files[f"{role}_key"]), f"The key of kit '{kit.name}',")
    return files


def _paths(kit: Path, role: str) -> dict[str, str]:
    found = {"ca_cert": _ROOT, f"{role}_cert": f"{role}.crt", f"{role}_key": f"{role}.key"}
    for name in found.values():
        if not (kit / "startup" / name).is_file():
            raise NotConnected(
                f"The kit '{kit.name}' has no startup/{name}.",
                "Use a kit that `sudare relay kits` or `nvflare provision` wrote for this role.",
            )
    return {purpose: str((kit / "startup" / name).absolute()) for purpose, name in found.items()}


def common_name(kit: Path, role: str) -> str:
    """Whom the kit's certificate is for."""
    content = Path(_paths(kit, role)[f"{role}_cert"]).read_bytes()
    try:
        names = x509.load_pem_x509_certificate(content).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        names = []
    if not names:
        raise NotConnected(f"The certificate of kit '{kit.name}' cannot be read.", "Ask for the kit again.")
    return str(names[0].value)


def days_left(kit: Path, role: str, now: datetime.datetime | None = None) -> int:
    """Whole days until the first of the kit's certificates ends, below zero if one has ended. Its key is not opened."""
    ends = [each.not_valid_after_utc for each in _certificates(kit, role)]
    return (min(ends) - (datetime.datetime.now(datetime.UTC) if now is None else now)).days


def begins(kit: Path, role: str) -> datetime.datetime:
    """When all of the kit's certificates count."""
    return max(each.not_valid_before_utc for each in _certificates(kit, role))


def _certificates(kit: Path, role: str) -> list[x509.Certificate]:
    files = _paths(kit, role)
    try:
        return [x509.load_pem_x509_certificate(Path(files[name]).read_bytes()) for name in ("ca_cert", f"{role}_cert")]
    except (ValueError, OSError):
        raise NotConnected(f"A certificate of kit '{kit.name}' cannot be read.", "Ask for the kit again.") from None


def is_usable(kit: Path, role: str) -> bool:
    """Whether the kit's certificate is in its time and for its key; a kit that is just being written is not."""
    try:
        files = kit_files(kit, role)
        certificate = x509.load_pem_x509_certificate(Path(files[f"{role}_cert"]).read_bytes())
        key = serialization.load_pem_private_key(Path(files[f"{role}_key"]).read_bytes(), None)
        return days_left(kit, role) >= 0 and certificate.public_key() == key.public_key()
    except (NotConnected, IdentityError, ValueError, TypeError, OSError):
        return False


def _write_kit(kit: Path, authority: _Authority, name: str, role: str) -> Path:
    certificate, key = authority.issued(name)
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    startup = kit / "startup"
    make_private_folder(startup)
    try:
        write_new(startup / _ROOT, authority.certificate.public_bytes(encoding), SHARED_MODE)
        write_new(startup / f"{role}.crt", certificate.public_bytes(encoding), SHARED_MODE)
        write_new(startup / f"{role}.key", key.private_bytes(encoding, private, serialization.NoEncryption()))
    except FileExistsError:
        raise InvalidParameter(f"There is already a kit in '{kit}'.", "Choose a new folder.") from None
    return kit


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
