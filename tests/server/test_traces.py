"""The setting traces-endpoint: its valid values, and its requirements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.errors import StartError
from penstock.server.traces import check_endpoint
from tests.support.brokers import penstock_command, settings_file


def test_endpoint_is_a_url_and_the_error_says_where_a_login_goes() -> None:
    reason = "^traces-endpoint must be a URL of http or https without .*; a login goes into the environment variable"
    with pytest.raises(StartError, match=reason) as refused:
        check_endpoint("http://ada:secret@collector/v1/traces")
    assert "secret" not in str(refused.value)


def test_endpoint_needs_the_libraries_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.server.otlp_collector", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(StartError, match=r"^traces-endpoint needs .*: pip install 'penstock\[otel\]'$"):
        check_endpoint("http://127.0.0.1:4318/v1/traces")


def test_check_of_the_settings_refuses_an_invalid_endpoint(tmp_path: Path) -> None:
    options = settings_file(tmp_path, '[broker]\ntraces-endpoint = "collector"\n')
    done = penstock_command("serve", "--memory", "--check", *options)
    assert done.returncode != 0
    assert "traces-endpoint must be a URL" in done.stderr


def test_libraries_are_not_imported_without_an_endpoint() -> None:
    done = penstock_command("serve", "--memory", "--check")
    assert done.returncode == 0, done.stderr
    import subprocess

    code = "import sys, penstock.server.server; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
