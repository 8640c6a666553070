"""TLS of one broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.server.tls.contexts import TlsServer
from penstock.settings.file_tables import CertificateFiles, TlsSettings


async def test_unusable_tls_files_are_reported_at_once(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    with pytest.raises(ConfigError, match="cannot be read"):
        TlsServer(asyncio.get_running_loop(), TlsSettings(CertificateFiles(nowhere, nowhere)), print)
