"""The certificates that TLS connections trust, for models over HTTP and the recording proxy."""

import os
import platform
import ssl
from typing import Final

from argstream.errors import MissingExtraError, UsageError

_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
# Where Linux distributions have the certificates, for a Python whose OpenSSL looks elsewhere.
_FILES: Final = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)


def load_certificates() -> ssl.SSLContext:
    """Load the certificates of the system, or those that environment variables name."""
    try:
        context = _load_certificates()
    except OSError as error:  # includes ssl.SSLError
        names = names_of_set_variables(_VARIABLES)
        raise UsageError(f"{names}: certificates cannot be loaded: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_certificates() -> ssl.SSLContext:
    file, folder = (os.environ.get(name) or None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    if file is None and folder is None:
        if platform.system() in ("Darwin", "Windows"):  # OpenSSL does not know their certificates
            try:
                import truststore
            except ModuleNotFoundError:
                raise MissingExtraError("http", "HTTPS on this system") from None
            return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if ssl.get_default_verify_paths().cafile is None:
            file = next(filter(os.path.isfile, _FILES), None)
    context = ssl.create_default_context(cafile=file, capath=folder)
    # Python 3.13 sets it. Certificates of many companies do not comply.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def names_of_set_variables(variables: tuple[str, ...]) -> str:
    spellings = [spelling for name in variables for spelling in (name, name.lower())]
    found = [f"${name}" for name in spellings if os.environ.get(name)]
    return ", ".join(found) or "the settings of this machine"
