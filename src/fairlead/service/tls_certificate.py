"""The service's own TLS certificate, and a context for clients that accept no other.

Tokens carry the digest of the certificate. So a client recognises the service before it sends its
secret, even if another account or machine has taken the address. Certificate
authorities and host names are not checked, only the digest.
"""

from __future__ import annotations

import ssl
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from tempfile import NamedTemporaryFile
from typing import Any

KEY = "certificate"  # under which the journal keeps it
YEARS = 100  # clients check the digest, not the date


def make() -> str:
    """Return a new private key and its certificate, in PEM."""
    # Imported here, because only the service needs this package, which takes 0.2 s to import.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fairlead")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * YEARS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()


def digest(pem: str) -> str:
    """Return the digest of a certificate in PEM, as tokens carry it."""
    first = pem.index("-----BEGIN CERTIFICATE-----")
    return _digest(ssl.PEM_cert_to_DER_cert(pem[first:]))


def server_context(pem: str) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with NamedTemporaryFile("w", encoding="ascii") as file:  # readable only by its owner
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def client_context(wanted: str) -> ssl.SSLContext:
    """Return a context that connects only to a server whose certificate has the digest `wanted`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the digest is checked below, before anything is sent

    class PinnedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            _check(self.getpeercert, wanted)

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            _check(self.getpeercert, wanted)

    context.sslsocket_class = PinnedSocket
    context.sslobject_class = PinnedObject
    return context


def _check(certificate: Callable[[bool], Any], wanted: str) -> None:
    """Raise unless the certificate that `getpeercert` returns has the digest `wanted`."""
    der = certificate(True)
    if not der or _digest(der) != wanted:
        raise ssl.SSLCertVerificationError(
            "its certificate is not that of the service that the token was made for"
        )


def _digest(der: bytes) -> str:
    return urlsafe_b64encode(sha256(der).digest()).decode().rstrip("=")
