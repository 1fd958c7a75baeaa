"""Key pairs: public keys of users, to be put into servers. Private keys are never stored."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cumulet.core import numbers, quota
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound, OverQuota
from cumulet.values import Caller

Kind = Literal["ssh", "x509"]
_BITS = 2048
#: The user's name in a certificate, as Windows reads it: id-ms-upn.
_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


class Keypair(msgspec.Struct, frozen=True):
    """A stored key pair; ``number`` is the small id that the API shows."""

    number: int
    user_id: str
    name: str
    type: Kind
    public_key: str
    fingerprint: str
    created_at: float


class Made(msgspec.Struct, frozen=True):
    """A freshly made pair."""

    public_key: str
    private_key: str


def generate(kind: Kind, user_id: str) -> Made:
    """Make a pair. Takes a tenth of a second of CPU, so it runs in no transaction and in a thread."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    if kind == "x509":
        return _certificate(key, user_id)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return Made(public_key=f"{public.decode()} Generated-by-Cumulet", private_key=private.decode())


def _certificate(key: rsa.RSAPrivateKey, user_id: str) -> Made:
    """A self-signed certificate with which the user logs in to Windows without a password.

    The private part is PKCS #12 in base64. See the compute API guide, "x509 key pairs".
    """
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:64])])
    principal = f"{user_id}@localhost".encode()
    # DER: a UTF8String. The length fits into one byte below 128, else into 0x81 and one more.
    length = bytes([len(principal)]) if len(principal) < 128 else bytes([0x81, len(principal)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.OtherName(_UPN, b"\x0c" + length + principal)]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    bundle = pkcs12.serialize_key_and_certificates(None, key, certificate, None, serialization.NoEncryption())
    return Made(
        public_key=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        private_key=base64.b64encode(bundle).decode(),
    )


def fingerprint(kind: Kind, public_key: str) -> str:
    """The fingerprint as old clients know it: MD5 of an SSH key, SHA-1 of a certificate. Raises Invalid."""
    try:
        if kind == "x509":
            digest = x509.load_pem_x509_certificate(public_key.encode()).fingerprint(hashes.SHA1())  # noqa: S303
        else:
            serialization.load_ssh_public_key(public_key.encode())
            blob = base64.b64decode(public_key.split()[1])
            digest = hashlib.md5(blob, usedforsecurity=False).digest()
    except (ValueError, IndexError, TypeError, UnsupportedAlgorithm, binascii.Error) as error:
        what = "a certificate in PEM" if kind == "x509" else "an SSH public key"
        raise Invalid(f"Keypair data is invalid: public_key is not {what} ({error}).") from None
    return ":".join(f"{byte:02x}" for byte in digest)


def create(tx: Tx, caller: Caller, user_id: str, name: str, kind: Kind, public_key: str) -> Keypair:
    """Store a public key for a user. Raises Invalid, Conflict for a name that is taken, OverQuota.

    The limit is the one of the caller's project; key pairs are counted by user.
    """
    pair = Keypair(
        number=numbers.following(tx, "keypairs"),
        user_id=user_id,
        name=name,
        type=kind,
        public_key=public_key,
        fingerprint=fingerprint(kind, public_key),
        created_at=tx.now,
    )
    quota.lock_project(tx, f"user:{user_id}")
    used = tx.value("select count(*) from keypairs where user_id = :user", user=user_id)
    limit = quota.limits(tx, "compute", caller.project_id or "", user_id)["key_pairs"]
    if limit != quota.UNLIMITED and used >= limit:
        raise OverQuota(f"Quota exceeded, too many key pairs: {used} of {limit} are used.")
    if not tx.insert_new("keypairs", id=tx.uuid(), **msgspec.structs.asdict(pair)):
        raise Conflict(f"Key pair '{name}' already exists.")
    return pair


def find(tx: Tx, user_id: str, name: str) -> Keypair:
    """A user's key pair. Raises NotFound."""
    row = tx.one("select * from keypairs where user_id = :user and name = :name", user=user_id, name=name)
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
    return _keypair(row)


def listing(tx: Tx, user_id: str, query: Query) -> list[Keypair]:
    """A page of a user's key pairs, by name; the marker is a name. Raises MarkerNotFound."""
    where = Where()
    where.equal("user_id", user_id)
    return [_keypair(row) for row in page(tx, "keypairs", where, query, {}, (("name", "asc"),), key="name")]


def delete(tx: Tx, user_id: str, name: str) -> None:
    """Forget a key pair; servers keep the key that they were made with. Raises NotFound."""
    if not tx.run("delete from keypairs where user_id = :user and name = :name", user=user_id, name=name):
        raise NotFound(f"Keypair {name} not found for user {user_id}")


def _keypair(row: Row) -> Keypair:
    return Keypair(**{name: row[name] for name in Keypair.__struct_fields__})
