"""Certificates of a broker without TLS."""

from __future__ import annotations

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.errors import PreconditionFailed
from penstock.management.node import Certificates, answer_reload
from tests.support.driven_connection import make_driver


def test_broker_without_tls_has_no_certificates_and_says_how_to_have_some() -> None:
    certificates = Certificates()
    vhost = make_driver().broker.add_vhost("other")
    assert certificates.view() == []
    with pytest.raises(PreconditionFailed, match="this broker has no TLS: set certificate and key"):
        answer_reload(certificates, ControlRequest(vhost, None, None, None, b"{}"))
