"""Contexts of TLS: the faults of files, each in one sentence, and certificates by name."""

from __future__ import annotations

import contextlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.server.tls.certificate import certificates
from penstock.server.tls.contexts import Contexts, now
from penstock.settings.file_tables import CertificateFiles, TlsSettings
from tests.support.certificates import Authority, localhost


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return localhost(tmp_path)


def settings(authority: Authority, key: Path | None = None, password: str = "", **more: object) -> TlsSettings:
    return TlsSettings(authority.files(key=key, password=password), **more)  # type: ignore[arg-type]


def refusal(given: TlsSettings) -> str:
    with pytest.raises(ConfigError) as refused:
        Contexts(given)
    assert "secret" not in str(refused.value)
    return str(refused.value)


def shake(contexts: Contexts, client: ssl.SSLContext, name: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Shake hands in memory; return the side of the client, and ours."""
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(here, there, server_hostname=name)
    far = contexts.context.wrap_bio(there, here, server_side=True)
    for _ in range(3):
        for each in (near, far):
            with contextlib.suppress(ssl.SSLWantReadError):
                each.do_handshake()
    return near, far


def refusal_of(contexts: Contexts, authority: Authority, client: str) -> str:
    """Shake hands with the certificate of a client; return why it is refused, "" if it is not."""
    try:
        _, far = shake(contexts, authority.trusting(client))
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    assert far.getpeercert()
    return ""


def test_key_of_another_certificate_is_refused(authority: Authority) -> None:
    said = refusal(settings(authority, authority.key("client")))
    assert "client-key.pem' does not belong to certificate" in said


def test_wrong_or_missing_password_of_a_key_is_reported(authority: Authority) -> None:
    key = authority.encrypt_key("server", "the secret")
    assert "is encrypted: set key-password" in refusal(settings(authority, key))
    assert "cannot be decrypted: its password is wrong" in refusal(settings(authority, key, "another secret"))
    assert Contexts(settings(authority, key, "the secret")).served[0].certificate.names[0] == "localhost"


def test_missing_files_and_files_of_another_kind_are_reported(authority: Authority) -> None:
    nowhere = authority.folder / "nowhere.pem"
    assert refusal(settings(authority, nowhere)) == f"[tls] key '{nowhere}' cannot be read: No such file or directory"
    assert "has no private key in PEM form" in refusal(settings(authority, authority.ca))
    empty = authority.folder / "empty.pem"
    empty.write_text("")
    assert "cannot be used: it has no certificate in PEM form" in refusal(TlsSettings(CertificateFiles(empty, empty)))
    assert "ca '" in refusal(settings(authority, ca=empty))
    large = authority.folder / "large.pem"
    large.write_bytes(bytes(1024 * 1024 + 1))
    assert "has more than 1,048,576 bytes" in refusal(settings(authority, large))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_unreadable_key_is_reported(authority: Authority) -> None:
    authority.key("server").chmod(0)
    assert "cannot be read: Permission denied" in refusal(settings(authority))


def test_certificate_near_its_end_has_a_warning(authority: Authority) -> None:
    served = Contexts(settings(authority)).served[0]
    assert served.warning(now()) == ""
    assert "expires in 29 days" in served.warning(served.certificate.ends - timedelta(days=29, hours=1))
    assert "has expired on" in served.warning(served.certificate.ends)
    assert "is not valid before 2020-01-01: check the clock" in served.warning(datetime(1970, 1, 1, tzinfo=UTC))
    view = served.view(now())
    assert (view["name"], view["days_left"], view["warning"]) == (None, 364, "")


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("shop.example.org", "shop"),
        ("SHOP.example.org", "shop"),
        ("a.wide.example.org", "wide"),
        ("b.a.wide.example.org", "server"),
        ("localhost", "server"),
    ],
)
def test_certificate_is_chosen_by_the_name_that_the_client_asks_for(
    authority: Authority, asked: str, shown: str
) -> None:
    names = {}
    for name, identity in (("shop", "shop.example.org"), ("wide", "*.wide.example.org")):
        names[identity] = CertificateFiles(authority.issue(name, identity), authority.key(name))
    contexts = Contexts(settings(authority, names=names))
    client = authority.trusting()
    client.check_hostname = False
    found = shake(contexts, client, asked)[0].getpeercert(binary_form=True)
    assert found is not None
    assert ssl.DER_cert_to_PEM_cert(found) in (authority.folder / f"{shown}.pem").read_text().replace("\r", "")


@pytest.mark.parametrize("by_name", [False, True])
def test_certificate_of_a_client_that_a_list_has_is_refused(authority: Authority, by_name: bool) -> None:
    authority.issue("other", "bob@example.org", common_name="bob")
    crl = authority.revoke("client")
    files = authority.files()
    contexts = Contexts(
        settings(
            authority,
            ca=authority.ca,
            crl=crl,
            client_certificates="required",
            names={"localhost": files} if by_name else {},
        )
    )
    assert refusal_of(contexts, authority, "client") == "certificate revoked"
    assert refusal_of(contexts, authority, "other") == ""
    assert contexts.warnings(now()) == []


def test_clients_are_refused_with_a_warning_after_the_end_of_a_revocation_list(authority: Authority) -> None:
    crl = authority.revoke(days=-1)
    contexts = Contexts(settings(authority, ca=authority.ca, crl=crl, client_certificates="optional"))
    assert refusal_of(contexts, authority, "client") == "CRL has expired"
    [said] = contexts.warnings(now())
    assert said.startswith(f"crl '{crl}' has a list that was to be renewed by ")


def test_revocation_list_of_another_authority_admits_no_client(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    crl = Authority(tmp_path / "other").revoke()
    contexts = Contexts(settings(authority, ca=authority.ca, crl=crl, client_certificates="required"))
    assert refusal_of(contexts, authority, "client") == "unable to get certificate CRL"


class Chain:
    """An authority, one below it that issued `client`, and lists of both."""

    def __init__(self, root: Authority) -> None:
        self.root = root
        self.below = root.intermediate("below")
        self.below.issue("client", "ada@example.org", common_name="ada")
        self.crl = root.folder / "crl.pem"

    def revoke(self, *names: str, by_root: tuple[str, ...] = ()) -> None:
        lists = [self.root.revoke(*by_root, file="root.pem"), self.below.revoke(*names, file="below-list.pem")]
        self.crl.write_bytes(b"".join(each.read_bytes() for each in lists))

    def contexts(self, **more: object) -> Contexts:
        given = {"ca": self.root.ca, "crl": self.crl, "client_certificates": "required", **more}
        return Contexts(settings(self.root, **given))  # type: ignore[arg-type]


def test_client_of_a_revoked_authority_is_refused_where_the_chain_is_checked(authority: Authority) -> None:
    chain = Chain(authority)
    chain.revoke()
    for check in ("leaf", "chain"):
        assert refusal_of(chain.contexts(crl_check=check), authority, "client") == ""
    chain.revoke(by_root=("below",))
    assert refusal_of(chain.contexts(), authority, "client") == "", "the default looks at the client's own certificate"
    assert refusal_of(chain.contexts(crl_check="chain"), authority, "client") == "certificate revoked"


def test_revoked_client_is_refused_with_each_check(authority: Authority) -> None:
    chain = Chain(authority)
    chain.revoke("client")
    for check in ("leaf", "chain"):
        assert refusal_of(chain.contexts(crl_check=check), authority, "client") == "certificate revoked"


@pytest.mark.parametrize("by_name", [False, True])
def test_chain_is_checked_for_names_as_well(authority: Authority, by_name: bool) -> None:
    chain = Chain(authority)
    chain.revoke(by_root=("below",))
    files = authority.files()
    contexts = chain.contexts(crl_check="chain", names={"localhost": files} if by_name else {})
    assert refusal_of(contexts, authority, "client") == "certificate revoked"


def test_authority_without_a_revocation_list_is_reported_for_chain_checks(authority: Authority) -> None:
    chain = Chain(authority)
    both = authority.folder / "both.pem"
    both.write_bytes(authority.ca.read_bytes() + chain.below.ca.read_bytes())
    name = certificates(both.read_text())[1].name.text
    assert "Testing CA" in name
    chain.crl.write_bytes(authority.revoke(file="root.pem").read_bytes())
    given = {"crl": chain.crl, "client_certificates": "required"}
    said = refusal(settings(authority, ca=both, crl_check="chain", **given))
    assert said == (
        f"[tls] crl '{chain.crl}' has no list of authority '{name}' of ca '{both}', and crl-check is chain: add its "
        "list, or set crl-check to leaf"
    )
    leaf = Contexts(settings(authority, ca=both, **given))
    assert refusal_of(leaf, authority, "client") == "unable to get certificate CRL"
    chain.crl.write_bytes(Authority(authority.folder, "other").revoke(file="o.pem").read_bytes())
    assert "' and 1 more of ca '" in refusal(settings(authority, ca=both, crl_check="chain", **given))
    chain.revoke()
    assert refusal_of(Contexts(settings(authority, ca=both, crl_check="chain", **given)), authority, "client") == ""


def test_authority_that_the_client_sends_needs_a_list_at_its_handshake(authority: Authority) -> None:
    chain = Chain(authority)
    chain.crl.write_bytes(authority.revoke(file="root.pem").read_bytes())
    contexts = chain.contexts(crl_check="chain")
    assert refusal_of(contexts, authority, "client") == "unable to get certificate CRL"


def test_faults_of_revocation_lists_are_reported(authority: Authority) -> None:
    def said_of(crl: Path) -> str:
        return refusal(settings(authority, ca=authority.ca, crl=crl, client_certificates="required"))

    assert "it has no list of revoked certificates in PEM form" in said_of(authority.ca)
    crl = authority.revoke("client")
    whole = crl.read_text()
    crl.write_text(whole + (authority.folder / "server.pem").read_text())
    assert "crl.pem' has certificates; give it lists only, and certificates to ca" in said_of(crl)
    lines = whole.splitlines()
    crl.write_text(whole + "\n".join(lines[:-1]))
    assert "crl.pem' cannot be used: one of its lists is damaged" in said_of(crl)
    crl.write_text("\n".join([lines[0], *lines[4:]]))
    assert "crl.pem' cannot be used: one of its lists is damaged" in said_of(crl)
    assert "cannot be read: No such file or directory" in said_of(authority.folder / "nowhere.pem")


@pytest.mark.parametrize(("minimum", "works"), [("1.2", True), ("1.3", False)])
def test_versions_before_the_minimum_are_refused(authority: Authority, minimum: str, works: bool) -> None:
    client = authority.trusting()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    contexts = Contexts(settings(authority, minimum_version=minimum))
    if works:
        assert shake(contexts, client)[0].getpeercert(binary_form=True)
    else:
        with pytest.raises(ssl.SSLError):
            shake(contexts, client)


def test_non_ascii_name_ends_the_handshake_without_a_traceback(
    authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"shop.example.org": authority.files()}
    contexts = Contexts(settings(authority, names=names))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    incoming.write(outgoing.read().replace(b"localhost", b"local\xdcost"))
    server = contexts.context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    with pytest.raises(ssl.SSLError):
        server.do_handshake()
    assert "Traceback" not in capsys.readouterr().err
