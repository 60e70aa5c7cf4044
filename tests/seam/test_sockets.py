"""Which names and addresses are this machine's own."""

from __future__ import annotations

import pytest

from replaykit.seam.sockets import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "api.localhost", "127.0.0.1", "127.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
)
def test_names_of_this_machine_are_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.com", "127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", ""])
def test_names_that_only_look_like_this_machines_are_not(host: str) -> None:
    assert not is_loopback(host)
