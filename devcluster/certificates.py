"""The certificates of one cluster: its authority, its servers' and its clients'."""

import datetime
import ipaddress
import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=30)  # longer than any test cluster runs
_SKEW = datetime.timedelta(hours=1)  # still valid for clocks that tests move backwards


@dataclass(frozen=True)
class KeyPair:
    """The files of a certificate and its key."""

    cert_file: Path
    key_file: Path


class Authority:
    """A certificate authority that writes its certificates into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        self._key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = key
        name = _name("devcluster")
        builder = _builder(name, name, key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._certificate = builder.add_extension(_usage(signs=True), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.ca_file = folder / "ca.crt"
        _write(self.ca_file, self._certificate.public_bytes(serialization.Encoding.PEM))

    @classmethod
    def of(cls, folder: Path, certificate: bytes, key: bytes) -> Self:
        """Return an authority from existing PEM texts; it writes into the folder."""
        made = cls(folder)
        found = serialization.load_pem_private_key(key, password=None)
        assert isinstance(found, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey))
        with warnings.catch_warnings():
            # Go programs use serial number 0, which RFC 5280 forbids but clients accept.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            made._key, made._certificate = found, x509.load_pem_x509_certificate(certificate)
        _write(made.ca_file, certificate)
        return made

    def serving(self, name: str, *hosts: str) -> KeyPair:
        """Return a server's pair that is valid for these names and addresses."""
        san = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, san)

    def client(self, user: str, group: str | None = None) -> KeyPair:
        """Return a client's pair: to Kubernetes, common name is user and organization is group."""
        file_name = user.replace(":", "-")
        return self._issue(file_name, _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def token_keys(self) -> KeyPair:
        """Return the RSA pair for service-account tokens (`cert_file` is the bare public key)."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pair = KeyPair(self._folder / "tokens.pub", self._folder / "tokens.key")
        _write(pair.key_file, _private_pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write(pair.cert_file, public)
        return pair

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        san: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key.public_key())
        builder = builder.add_extension(_usage(signs=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if san is not None:
            builder = builder.add_extension(san, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")
        _write(pair.cert_file, certificate.public_bytes(serialization.Encoding.PEM))
        _write(pair.key_file, _private_pem(key))
        return pair


def server_context(pair: KeyPair, client_ca: Path) -> ssl.SSLContext:
    """Return TLS for a server that accepts only clients with a certificate of this authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client_ca))
    context.load_cert_chain(pair.cert_file, pair.key_file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _name(common: str, organization: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
