"""Where LangSmith is, and who asks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import UsageError
from replaykit.intake.services.langsmith_api import account_of, langsmith_account

KEY = "lsv2_pt_secret"


def test_the_newer_names_go_before_the_older_ones_and_empty_ones_count_as_unset() -> None:
    older = {"LANGCHAIN_ENDPOINT": "https://old.example", "LANGCHAIN_API_KEY": "old-key"}

    assert account_of(older).root == "https://old.example"
    assert account_of(older).headers == (("x-api-key", "old-key"),)
    newer = account_of({**older, "LANGSMITH_ENDPOINT": "https://new.example", "LANGSMITH_API_KEY": KEY})
    assert (newer.root, newer.key) == ("https://new.example", KEY)
    assert account_of({**older, "LANGSMITH_ENDPOINT": " ", "LANGSMITH_API_KEY": ""}).key == "old-key"
    assert account_of({"LANGSMITH_API_KEY": KEY}).root == "https://api.smith.langchain.com"


@pytest.mark.parametrize(
    ("endpoint", "root"),
    [
        ("https://host.example/", "https://host.example"),
        ("https://host.example/api/v1/", "https://host.example"),
        ("https://host.example/api/v2", "https://host.example"),
        ("https://host.example:8443/langsmith/api", "https://host.example:8443/langsmith"),
        ("http://127.0.0.1:1984", "http://127.0.0.1:1984"),
        ("http://localhost:1984/api/v1", "http://localhost:1984"),
        ("http://[::1]:1984", "http://[::1]:1984"),
    ],
)
def test_the_address_may_be_written_with_the_path_of_the_api(endpoint: str, root: str) -> None:
    assert account_of({"LANGSMITH_ENDPOINT": endpoint, "LANGSMITH_API_KEY": KEY}).root == root


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://host.example", "Give an https:// address, or one on loopback."),
        ("http://127.0.0.1.example", "Give an https:// address"),
        ("ftp://host.example", "Give an https:// address"),
        ("host.example", "Give an https:// address"),
        ("https://", "Give an https:// address"),
        ("https://[", "Give an https:// address"),
        ("https://host:port", "Give an https:// address"),
        (f"https://user:{KEY}@host.example", "nothing else"),
        (f"https://host.example?key={KEY}", "nothing else"),
    ],
)
def test_a_key_goes_over_tls_or_stays_on_this_machine(endpoint: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        account_of({"LANGSMITH_ENDPOINT": endpoint, "LANGSMITH_API_KEY": KEY})

    assert said in str(caught.value)
    assert KEY not in str(caught.value)


def test_without_a_key_only_this_machine_is_asked() -> None:
    assert account_of({"LANGSMITH_ENDPOINT": "http://127.0.0.1:9"}).headers == ()
    with pytest.raises(UsageError, match="needs a key"):
        account_of({})


@pytest.mark.parametrize("name", ["LANGSMITH_API_KEY", "LANGSMITH_WORKSPACE_ID"])
@pytest.mark.parametrize("value", ["se\ncret", "sécret", "\x00secret"])
def test_what_no_header_can_hold_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        account_of({"LANGSMITH_API_KEY": KEY, name: value})

    assert f"{name} contains characters that headers cannot hold" in str(caught.value)
    assert "cret" not in str(caught.value)


def test_the_key_is_not_in_what_is_printed() -> None:
    account = account_of({"LANGSMITH_API_KEY": KEY})

    assert KEY not in f"{account!r} {account}"
    assert account.hide(f"bad key {KEY}!") == "bad key ${LANGSMITH_API_KEY}!"
    assert langsmith_account(root="https://h", key="").hide("as it is") == "as it is"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://api.example/blob?sig=1", True),
        ("https://API.example:9000/blob", True),
        ("http://api.example/blob", False),
        ("https://bucket.example/blob", True),
        ("https://evil.bucket.example/blob", False),
        ("https://bucket.example.evil/blob", False),
        ("https://api.example@evil.example/blob", False),
        ("http://127.0.0.1/blob", False),
        ("https://127.0.0.1/blob", False),
        ("http://localhost:6379/", False),
        ("file:///etc/passwd", False),
        ("https:///blob", False),
        ("https://api.example:port/", False),
        ("//bucket.example/blob", False),
        ("", False),
    ],
)
def test_payloads_come_from_langsmith_itself_or_from_hosts_that_are_listed(url: str, allowed: bool) -> None:
    listed = {"REPLAYKIT_PAYLOAD_HOSTS": " Bucket.example, other.example ,"}
    account = account_of({"LANGSMITH_ENDPOINT": "https://api.example", "LANGSMITH_API_KEY": KEY, **listed})

    assert account.allows(url) is allowed


def test_this_machine_is_asked_for_payloads_only_by_a_langsmith_on_it() -> None:
    local = account_of({"LANGSMITH_ENDPOINT": "http://127.0.0.1:1984"})

    assert local.allows("http://127.0.0.1:9000/blob")
    assert local.allows("http://localhost:9000/blob")
    assert not local.allows("http://10.0.0.1/blob")


@given(st.text(max_size=60))
def test_no_address_whatever_it_looks_like_makes_it_raise(url: str) -> None:
    account = langsmith_account(root="https://api.example")

    assert account.allows(f"https://{url}") in (True, False)
    assert account.allows(url) in (True, False)
