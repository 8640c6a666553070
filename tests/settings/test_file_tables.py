"""The table [tls] of the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.settings.config import load
from penstock.settings.file_tables import CertificateFiles, TlsSettings


def read(folder: Path, text: str) -> TlsSettings | None:
    path = folder / "penstock.toml"
    path.write_text(text)
    return load(path).tls


def test_paths_are_relative_to_the_settings_file_and_defaults_are_filled_in(tmp_path: Path) -> None:
    assert read(tmp_path, "[broker]\n") is None
    found = read(tmp_path, '[tls]\ncertificate = "a.pem"\nkey = "/k.pem"\n')
    assert found == TlsSettings(CertificateFiles(tmp_path / "a.pem", Path("/k.pem")))
    assert (found.client_certificates, found.user_from, found.minimum_version) == ("none", "cn", "1.2")
    both = read(tmp_path, '[tls]\ncertificate = "both.pem"\nca = "ca.pem"\n')
    assert both is not None
    assert (both.files.key, both.ca, both.client_certificates) == (
        tmp_path / "both.pem", tmp_path / "ca.pem", "optional",
    )  # fmt: skip
    listed = read(tmp_path, '[tls]\ncertificate = "both.pem"\nca = "ca.pem"\ncrl = "crl.pem"\n')
    assert listed is not None
    assert (listed.crl, listed.crl_check) == (tmp_path / "crl.pem", "leaf")
    checked = read(tmp_path, '[tls]\ncertificate = "both.pem"\nca = "ca.pem"\ncrl = "crl.pem"\ncrl-check = "chain"\n')
    assert checked is not None
    assert checked.crl_check == "chain"


def test_certificates_and_vhosts_by_name(tmp_path: Path) -> None:
    text = '[tls]\ncertificate = "a.pem"\n[tls.names."Shop.example.org"]\ncertificate = "s.pem"\nkey = "s.key"\n'
    found = read(tmp_path, text + 'vhost = "shop"\n')
    assert found is not None
    assert found.names == {"shop.example.org": CertificateFiles(tmp_path / "s.pem", tmp_path / "s.key")}
    assert found.vhosts == {"shop.example.org": "shop"}


def test_password_of_a_key_comes_from_a_file_or_the_environment_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word").write_text("hush\n")
    monkeypatch.setenv("KEY_WORD", "hush")
    for place in ('key-password = "hush"', 'key-password-file = "word"', 'key-password-env = "KEY_WORD"'):
        found = read(tmp_path, f'[tls]\ncertificate = "a.pem"\n{place}\n')
        assert found is not None
        assert found.files.password == "hush"
        assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls = 7", r"\[tls\] must be a table"),
        ("[tls]", r"line 1: \[tls\] needs the setting certificate: the file of the certificate"),
        ("[tls]\ncertificate = 7", r"line 2: certificate in \[tls\] must be a string that is not empty, not 7"),
        ('[tls]\ncertificat = "a"', r"line 2: \[tls\] has no setting 'certificat'; did you mean certificate"),
        ('[tls]\ncertificate = "a"\nclient-certificates = "required"', "is required without ca"),
        ('[tls]\ncertificate = "a"\ncrl = "c"', "line 3: .* crl lists revoked certificates of clients, and client"),
        ('[tls]\ncertificate = "a"\nca = "c"\ncrl-check = "chain"', "line 4: .* crl-check is given without crl"),
        ('[tls]\ncertificate = "a"\nca = "c"\ncrl = "d"\ncrl-check = "all"', "must be leaf or chain, not 'all'"),
        ('[tls]\ncertificate = "a"\nca = "c"\nclient-certificates = "maybe"', "must be none, optional or requ"),
        ('[tls]\ncertificate = "a"\nminimum-version = "1.1"', "must be 1.2 or 1.3, not '1.1'"),
        ('[tls]\ncertificate = "a"\nuser-from = "cm"', "must be cn, dn, san-dns"),
        ('[tls]\ncertificate = "a"\nkey-password-env = "NO_SUCH"', "environment variable NO_SUCH"),
        ('[tls]\ncertificate = "a"\nkey-password-file = "nowhere"', "cannot be read: No such file"),
        (
            '[tls]\ncertificate = "a"\nkey-password = "hush"\nkey-password-env = "X"',
            "give only one of key-password and",
        ),
        ('[tls]\ncertificate = "a"\nnames = 7', r"\[tls.names\] must have a table for each name"),
        ('[tls]\ncertificate = "a"\n[tls.names.b]\nkey = "k"', r"\[tls.names.b\] needs the setting certificate"),
    ],
)
def test_table_that_cannot_be_is_refused_with_its_line_and_rule(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read(tmp_path, text + "\n")
    assert "hush" not in str(refused.value)
