"""The operator's own certificate authority: how it is created, checked and replaced. Pure.

A pod gets the authorities when it is created, and keeps these. So new pods get the next authority
long before the operator uses a certificate that it signed. The old one signs until few pods know
only the old one: these were created before its last year began.
"""

import datetime
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spotrun.api.names import SERVER_NAME

AUTHORITY_LIFE = datetime.timedelta(days=3 * 365)
OVERLAP = datetime.timedelta(days=365)
"""This long before the end of an authority the next one is created and given to new pods."""
HANDOVER = datetime.timedelta(days=30)
"""This long before the end of an authority the next one signs; a pod that knows only the old one is
at least 335 days old then."""
SERVING_LIFE = datetime.timedelta(days=90)
RENEWAL = datetime.timedelta(days=30)
"""This long before its end the serving certificate is replaced, without effect on agents."""
_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: bytes  # PEM
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Term:
    """The name, issuer and end of validity of a certificate."""

    name: str
    issuer: str
    ends: datetime.datetime


@dataclass(frozen=True)
class Certificates:
    """The existing certificates: authorities, older first, and our serving certificate."""

    authorities: tuple[Term, ...] = ()
    serving: Term | None = None


@dataclass(frozen=True)
class Plan:
    """The steps to take now, in this order."""

    drop: tuple[str, ...] = ()  # authorities that have ended
    make_authority: bool = False
    sign_by: int | None = None  # the index of the authority that signs a new serving certificate

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self == Plan()


def plan_rotation(now: datetime.datetime, certificates: Certificates) -> Plan:
    """Return the replacements that are due; there are none right after they were made."""
    kept = tuple(term for term in certificates.authorities if term.ends > now)
    drop = tuple(term.name for term in certificates.authorities if term not in kept)
    make = not kept or (len(kept) == 1 and kept[0].ends - now <= OVERLAP)
    names = [term.name for term in kept] + ([""] if make else [])
    # The old authority signs as long as it can, because old pods know no other one.
    hand_over = len(names) > 1 and kept[0].ends - now <= HANDOVER
    signer = 1 if hand_over else 0
    serving = certificates.serving
    is_good = (
        serving is not None and serving.issuer == names[signer] and serving.ends - now > RENEWAL
    )
    return Plan(drop=drop, make_authority=make, sign_by=None if is_good else signer)


def make_authority(now: datetime.datetime) -> Pair:
    """Make a new authority with a unique name, so that issuers can be distinguished."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"spotrun agents {secrets.token_hex(4)}")
    builder = _builder(name, name, key.public_key(), now, AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def sign_serving(authority: Pair, now: datetime.datetime) -> Pair:
    """Sign a certificate for the one name that agents expect, at any address of the operator."""
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer_key, ec.EllipticCurvePrivateKey), "`make_authority` made it"
    key = ec.generate_private_key(ec.SECP256R1())
    # Not beyond its signer's end: clients refuse such a certificate.
    life = min(SERVING_LIFE, signer.not_valid_after_utc - now)
    builder = _builder(_name(SERVER_NAME), signer.subject, key.public_key(), now, life)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),  # type: ignore[arg-type]
    ):
        builder = builder.add_extension(extension, critical=critical)
    return _pair(builder.sign(signer_key, hashes.SHA256()), key)


def term(certificate: bytes) -> Term:
    """Read a certificate's name, issuer and end; raises ValueError if it is not a certificate."""
    loaded = x509.load_pem_x509_certificate(certificate)
    return Term(_common(loaded.subject), _common(loaded.issuer), loaded.not_valid_after_utc)


def describe(authorities: Iterable[Pair], serving: Pair | None) -> Certificates:
    """Return the facts that a plan is made from."""
    terms = tuple(term(pair.certificate) for pair in authorities)
    return Certificates(terms, None if serving is None else term(serving.certificate))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _common(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
