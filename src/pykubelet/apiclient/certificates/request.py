"""Keys and certificate signing requests (PKCS #10), and reading certificates."""

import ipaddress
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykubelet.apiclient.certificates.certificate_types import Contents, Template, Validity
from pykubelet.base.errors import Invalid

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
NODES_GROUP = "system:nodes"


def client_template(node: str) -> Template:
    """Return the template of the node's client certificate."""
    return Template(CLIENT_SIGNER, NODES_GROUP, f"system:node:{node}", ("digital signature", "client auth"))


def serving_template(node: str, dns_names: Iterable[str], addresses: Iterable[str]) -> Template:
    """Return the template of the kubelet API server's certificate; needs at least one name or address."""
    return Template(
        SERVING_SIGNER,
        NODES_GROUP,
        f"system:node:{node}",
        ("digital signature", "server auth"),
        tuple(dict.fromkeys(dns_names)),
        tuple(dict.fromkeys(addresses)),
    )


def new_key() -> bytes:
    """Create a P-256 key in PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def check_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key in this PEM text. Raises Invalid if it cannot sign a request."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:  # TypeError: it is encrypted
        raise Invalid(f"not a private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid("not an elliptic-curve key")
    return key


def signing_request(key_pem: bytes, template: Template) -> bytes:
    """Return the request in PEM. Raises Invalid for an unreadable key."""
    key = check_key(key_pem)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, template.organization),
            x509.NameAttribute(NameOID.COMMON_NAME, template.common_name),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in template.dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in template.addresses]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def validity_of(pem: bytes) -> Validity:
    """Return the validity of the first certificate in the text. Raises Invalid."""
    return contents_of(pem).validity


def contents_of(pem: bytes) -> Contents:
    """Return what the first certificate in the text says. Raises Invalid."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        names = _alternative_names(certificate)
    except ValueError as error:
        raise Invalid(f"not a certificate: {error}") from error
    subject = certificate.subject
    return Contents(
        Validity(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()),
        next((str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)), ""),
        tuple(str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)),
        tuple(names.get_values_for_type(x509.DNSName)) if names is not None else (),
        tuple(str(each) for each in names.get_values_for_type(x509.IPAddress)) if names is not None else (),
    )


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def matches_key(certificate_pem: bytes, key_pem: bytes) -> bool:
    """Return whether the certificate belongs to this key."""
    try:
        public = x509.load_pem_x509_certificate(certificate_pem).public_key()
        own = serialization.load_pem_private_key(key_pem, None).public_key()
    except (ValueError, TypeError):
        return False
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return public.public_bytes(*form) == own.public_bytes(*form)
