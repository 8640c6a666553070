"""Traces: the choice of a collector for spans. OpenTelemetry's libraries are imported only if a collector is
configured.
"""

from __future__ import annotations

from penstock.errors import StartError
from penstock.management.hold_spans import SpanCollector
from penstock.settings.web_url import url_fault


def check_endpoint(endpoint: str) -> None:
    """Check the URL of a collector and the presence of the libraries. Raises StartError."""
    fault = url_fault(endpoint, insecure=True)
    if fault:
        login = "a login goes into the environment variable OTEL_EXPORTER_OTLP_TRACES_HEADERS"
        raise StartError(f"traces-endpoint {fault}; {login}")
    try:
        import penstock.server.otlp_collector  # noqa: F401 - the import checks for the libraries.
    except ImportError:
        raise StartError("traces-endpoint needs OpenTelemetry's libraries: pip install 'penstock[otel]'") from None


def collector_at(endpoint: str) -> SpanCollector:
    """Return the collector at a URL. Raises StartError."""
    check_endpoint(endpoint)
    from penstock.server.otlp_collector import OtlpCollector

    return OtlpCollector(endpoint)
