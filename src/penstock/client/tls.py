"""TLS of a client: its context, from files or from the query of a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ssl import SSLContext

TLS_FIELDS: Final = ("cacertfile", "certfile", "keyfile", "password", "verify")
"""Fields of the query of an `amqps://` URL, as in RabbitMQ's clients."""


def tls_context(
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    password: str = "",
    *,
    verify: bool = True,
) -> SSLContext:
    """Return the context of a client: its authorities (None: the system's), and its own certificate and key.

    Raises `ValueError` that names the file which cannot be used. Without `verify` any server can pose as the broker.
    """  # fmt: skip
    import ssl  # The import takes 15 ms, and most connections need none.
    from pathlib import Path

    for path in (ca, certificate, key):
        if path is not None and not Path(path).is_file():
            raise ValueError(f"the file '{path}' for TLS is not there")
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, lambda: password)
    except OSError as error:  # ssl.SSLError is an OSError.
        files = " and ".join(f"'{path}'" for path in (ca, certificate, key) if path is not None)
        reason = (getattr(error, "reason", None) or error.strerror or str(error)).lower().replace("_", " ")
        raise ValueError(f"the files for TLS cannot be used ({files}): {reason}") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def context_of(fields: Mapping[str, str]) -> SSLContext:
    """Return the context for the query of an `amqps://` URL. Raises `ValueError`."""
    verify = fields.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise ValueError("verify in an amqps:// URL must be verify_peer or verify_none")
    certificate, key = fields.get("certfile"), fields.get("keyfile")
    password = fields.get("password", "")
    return tls_context(fields.get("cacertfile"), certificate, key, password, verify=verify == "verify_peer")
