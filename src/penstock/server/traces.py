"""Traces: the choice of a collector for spans. OpenTelemetry's libraries are imported only where one is configured."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from penstock.errors import StartError
from penstock.management.hold_spans import SpanCollector


def check_endpoint(endpoint: str) -> None:
    """Check the URL of a collector, and that the libraries are installed. Raises StartError."""
    parts = _parts(endpoint)
    if parts is None:
        raise StartError("traces-endpoint must be a URL such as http://127.0.0.1:4318/v1/traces")
    if "@" in parts.netloc or parts.query:  # It is shown in the log, and to whoever may see settings.
        raise StartError(
            "traces-endpoint must have no user, password or query; a login goes into the environment variable "
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
        )
    try:
        import penstock.server.otlp_collector  # noqa: F401 - it has the libraries.
    except ImportError:
        raise StartError("traces-endpoint needs OpenTelemetry's libraries: pip install 'penstock[otel]'") from None


def collector_at(endpoint: str) -> SpanCollector:
    """Return the collector at a URL. Raises StartError."""
    check_endpoint(endpoint)
    from penstock.server.otlp_collector import OtlpCollector

    return OtlpCollector(endpoint)


def _parts(endpoint: str) -> SplitResult | None:
    """Return the parts of a URL of HTTP; None if it is none."""
    try:
        parts = urlsplit(endpoint)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if valid else None
