"""Makes and reads SSH keys and certificates; see core.keypairs, which imports this only when it is needed."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cumulet.errors import Invalid

_BITS = 2048
#: The user's name in a certificate, as Windows reads it: id-ms-upn.
_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


def generate(kind: str, user_id: str) -> tuple[str, str]:
    """A fresh public and private key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    if kind == "x509":
        return _certificate(key, user_id)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return f"{public.decode()} Generated-by-Cumulet", private.decode()


def _certificate(key: rsa.RSAPrivateKey, user_id: str) -> tuple[str, str]:
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
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return public, base64.b64encode(bundle).decode()


def fingerprint(kind: str, public_key: str) -> str:
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
