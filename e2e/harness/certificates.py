"""Certificate authority, server certificate and kubeconfigs of a cluster."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=7)
#: KEDA's operator and metrics adapter use this certificate for mutual TLS.
_PURPOSES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form.

    Attributes:
        authority: Certificate authority that clients and the API server trust.
        directory: Contains tls.crt and tls.key, the file names that webhook servers expect.
        token_key: Key that signs service account tokens.
    """

    authority: Path
    directory: Path
    token_key: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        return self.directory / "tls.key"

    @property
    def texts(self) -> dict[str, str]:
        """The content of the server's certificate and key, by their keys in a Secret."""
        files = (self.certificate, self.key)
        return {file.name: file.read_text(encoding="utf-8") for file in files}


def create_certificates(
    directory: Path, addresses: Sequence[str] = (), hosts: Sequence[str] = ()
) -> Certificates:
    """Create certificates for loopback and these addresses and hosts, valid for LIFETIME."""
    directory.mkdir()
    files = Certificates(directory / "ca.crt", directory, directory / "token.key")
    now = dt.datetime.now(dt.timezone.utc)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fusioninfer-e2e")])
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _make_builder(now)
        .subject_name(authority_name)
        .issuer_name(authority_name)
        .public_key(authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_make_key_usage(authority=True), critical=True)
        .add_extension(authority_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    server_key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", *addresses)]
    alternatives = [*names, *map(x509.DNSName, ("localhost", *hosts))]
    server = (
        _make_builder(now)
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")]))
        .issuer_name(authority_name)
        .public_key(server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(_make_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_PURPOSES), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_key(files.key, server_key)
    _write_key(files.token_key, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return files


def _make_builder(now: dt.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        # Stays valid if the clock is set back by less than an hour.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _make_key_usage(*, authority: bool) -> x509.KeyUsage:
    # Python 3.13 rejects a certificate authority without keyUsage.
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def write_kubeconfig(
    path: Path, *, server: str, authority: Path, token: str, impersonate: str | None = None
) -> Path:
    """Write a kubeconfig as JSON, which is valid YAML, and return its path."""
    user = {"token": token} | ({"as": impersonate} if impersonate else {})
    trusted = base64.b64encode(authority.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [
            {"name": "e2e", "cluster": {"server": server, "certificate-authority-data": trusted}}
        ],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return path
