"""The trust file of a service: an `allowed_signers` file of OpenSSH with a version. It names the service's CAs and its
recovery key, which signs later versions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from daybreak_client import wire
from daybreak_client.errors import NotProved
from daybreak_client.proof.signature import (
    Certificate,
    PublicKey,
    parse_certificate,
    parse_key,
    parse_signature,
    shown,
)

TRUST_NAMESPACE = "daybreak-trust"
_MAX_BYTES = 256 << 10
_VERSION = re.compile(r"# daybreak trust ([1-9][0-9]{0,17}) (\S+)")
_LINE = re.compile(r'(\S+) (?:((?:[^\s"]|"[^"]*")+) )?((?:ssh|ecdsa)-[a-z0-9-]+) ([A-Za-z0-9+/=]+)(?: .*)?')
_QUOTED_PARTS = re.compile(r'(?:[^,"]|"[^"]*")+')
_OPTION = re.compile(r'(cert-authority)|namespaces="([^"\\]*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Signer:
    """A key of a trust file. `is_ca`: it issues certificates. `namespaces` are patterns of what it may sign."""

    key: PublicKey
    is_ca: bool
    namespaces: tuple[str, ...]

    def may_sign(self, namespace: str) -> bool:
        """Return whether a signature for this namespace is accepted. In its patterns, only `*` and `?` are special.

        `fnmatch` does not try again what a `*` has matched, which takes forever for some patterns.
        """
        return any(fnmatchcase(namespace, pattern.replace("[", "[[]")) for pattern in self.namespaces)


@dataclass(frozen=True, slots=True)
class Trust:
    """The version, CAs and recovery keys of a service. `text` is the file, byte for byte."""

    service: str
    version: int
    signers: tuple[Signer, ...]
    recovery: tuple[Signer, ...]
    text: str

    def signed_statement(self, statement: bytes, signature: bytes, client_id: str) -> Certificate:
        """Check the signature of a statement for an account, and return its certificate. Raises NotProved."""
        found, namespace = parse_signature(signature), f"daybreak/{client_id}"
        if not found.has_certificate:
            raise NotProved("A key without a certificate made the signature.")
        certificate = parse_certificate(found.key)
        if certificate.ca not in [each.key for each in self.signers if each.may_sign(namespace)]:
            raise NotProved(f"A CA that {self.service} does not list in its trust file issued the certificate.")
        if self.service not in certificate.principals:
            names = ", ".join(map(shown, certificate.principals)) or "no service"
            raise NotProved(f"The certificate is for {names}, not for {self.service}.")
        found.check(certificate.key, statement, namespace)
        return certificate

    def check_successor(self, newer: "Trust", signature: bytes) -> None:
        """Check that a version is this one, or a later one that the recovery key has signed. Raises NotProved."""
        name = f"version {newer.version} of the trust file of {self.service}"
        if newer.version < self.version:
            raise NotProved(f"The service returned {name}, older than version {self.version}, which was seen before.")
        if newer != self and not self.has_signed(newer, signature):
            raise NotProved(
                f"The service returned {name}, which the recovery key of version {self.version} did not sign. Ask its "
                "operator, and compare the file over another channel before you use it with --trust."
            )

    def has_signed(self, newer: "Trust", signature: bytes) -> bool:
        """Return whether the recovery key has signed a later version. Raises NotProved for a damaged signature."""
        if not signature:
            return False
        found = parse_signature(signature)
        for signer in self.recovery:
            if signer.key == found.key and signer.may_sign(TRUST_NAMESPACE):
                found.check(signer.key, newer.text.encode(), TRUST_NAMESPACE)
                return True
        return False


def parse_trust(content: bytes) -> Trust:
    """Parse a trust file. Raises NotProved, which names what is invalid."""
    try:
        if len(content) > _MAX_BYTES:
            raise wire.InvalidValue("it is larger than 256 kB")
        text = content.decode()
        lines = [line.strip() for line in text.splitlines()]
        headers = [found for line in lines if (found := _VERSION.fullmatch(line))]
        if len(headers) != 1:
            raise wire.InvalidValue("it has no line such as `# daybreak trust 1 export.example.org`")
        service = wire.service_name(headers[0][2])
        keys = list(_signers(lines))
        signers = tuple(signer for name, signer in keys if name == service and signer.is_ca)
        recovery = tuple(signer for name, signer in keys if name == f"trust@{service}" and not signer.is_ca)
        if not signers:
            raise wire.InvalidValue(f"it has no CA of {service}")
        return Trust(service, int(headers[0][1]), signers, recovery, text)
    except UnicodeDecodeError:
        raise NotProved("The trust file is not UTF-8.") from None
    except wire.InvalidValue as fault:
        raise NotProved(f"The trust file is invalid: {fault}.") from None


def parse_revoked(content: bytes) -> frozenset[str]:
    """Parse a list of revoked keys, one a line, as `ssh-keygen -r` reads it. Raises NotProved."""
    found = set()
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError
        for line in content.decode().splitlines():
            words = line.split()
            if words and not words[0].startswith("#"):
                found.add(parse_key(words[0], words[1]).text)
    except (ValueError, IndexError):
        raise NotProved("The list of revoked certificates is invalid.") from None
    return frozenset(found)


def _signers(lines: list[str]) -> Iterator[tuple[str, Signer]]:
    """Yield the principal and the key of each line. Raises InvalidValue."""
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        parsed = [_OPTION.fullmatch(option) for option in _QUOTED_PARTS.findall(found[2] or "" if found else "")]
        if found is None or None in parsed:
            raise wire.InvalidValue(f"line {number} is not a key with the options cert-authority and namespaces")
        try:
            key = parse_key(found[3], found[4])
        except ValueError:
            raise wire.InvalidValue(f"line {number} has an invalid key") from None
        namespaces = tuple(name for option in parsed if option and option[2] for name in option[2].split(","))
        yield found[1], Signer(key, any(option and option[1] for option in parsed), namespaces)
