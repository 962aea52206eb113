"""Certificates for local servers."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def own_certificate(file: Path, *, expired: bool = False, address: str = "127.0.0.1") -> None:
    """Write a self-signed certificate for an address and localhost, and its key, to `file`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test server")])
    now = datetime.now(UTC)
    begin, end = now - timedelta(days=2), now + timedelta(days=-1 if expired else 1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address)), x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file.write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
