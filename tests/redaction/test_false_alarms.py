"""What looks like a secret or a person, and is none."""

from __future__ import annotations

import pytest

from replaykit.redaction import find

QUIET = [
    "password: ********",
    "password=${DB_PASSWORD}",
    "MODE=fast\ncreated=2026-07-19T00:28:07.228717+00:00\nWORKERS=4\n",
    "password = $DB_PASSWORD",
    "token = os.environ['API_TOKEN']",
    'token = os.environ["API_TOKEN"]',
    "const token = process.env.API_TOKEN;",
    "password_hash = hasher.hash(password)",
    '"max_tokens": 100, "completion_tokens": 1234567, "token_count": 5',
    "tokenizer: bert-base-uncased",
    '"next_page_token": "CAUQAA83hdk3jd93kd93"',
    '{"token": " hello", "logprob": -0.123456789}',
    "the secretary: Jane",
    '"password": true, "token": null, "secret": false',
    "api_key=<your-api-key>",
    'api_key = "YOUR_API_KEY"',
    "password: {{ db_password }}",
    "password = %(password)s",
    "def login(user, password=None): return check(password, token=token)",
    "self.password = password",
    "if password == other.password:",
    "password: string;",
    "token: Optional[str] = None",
    "const token = await getToken();",
    "TOKEN=$(cat file)",
    "the password must be 8 characters",
    "Your password is incorrect",
    "authorization: required",
    "passes: 3, bypass=true",
    '"verdict": "pass", "reason": "all is well"',
    "git@github.com:org/repo.git",
    "scp file bob@example.com:/srv/data/x",
    "@scope/pkg@1.2.3 and icon@2x.png and react@18.2.0-beta.1",
    "@app.route('/x')",
    "user@localhost",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "2024-01-15 10:23:45.123456 INFO 1705314225123 1705314225",
    "15.01.2024 10:23, 01/15/2024, 2024/01/15",
    "version 1.2.3.4, v10.20.30.40, Chrome/120.0.0.0, pkg==1.2.3.4",
    "127.0.0.1:8080 192.168.1.10 10.0.0.1 0.0.0.0 255.255.255.0",
    "::1 and :: and fe80::",
    "ISBN 978-3-16-148410-0 and 0-306-40615-2",
    "lat 52.5200066 lon 13.4049540, 40.7128 -74.0060",
    "price 1,234,567.89 EUR, 12 345 678, $1234567.00",
    "mac 01:23:45:67:89:ab",
    "std::vector<int>::iterator a::b c::d",
    "#ff00aa 0x1234567890abcdef rgba(255, 255, 255, 0.123456789)",
    "order number 415-555-2671, invoice 4155552671",
    "tracking 1Z999AA10123456784",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "00000860  92 8b f9 47 04 84 04 49 21 25 88 82 31 c5 04 68",
    "function(){var e=n(12345678),t=r(87654321);return e+t*3.14159265358979}",
    "run-billing-2024-0312 and job-1234567890",
    '"key": "a8f5f167f44f4964e6c998dee827110c", "cache_key": "a8f5f167f44f4964e6c998dee827110c"',
    '("anthropic_key", r"\\bsk-ant-[A-Za-z0-9_-]{20,200}")',
    "https://example.com/a/b?page=2&sort=name#top",
    "postgres://app:${PASSWORD}@db/x and https://user:password@example.com",
    "[0.5188959947504221, -0.5550456742709378, 4.111111111111111e-05]",
    'etag W/"5f3-17d8c1a2b3c" request_id=30152619762829a330b5dd99ee22ed47',
    "<email:7f3a91c2> and %3Cphone%3A12345678%3E and password=<secret:12345678>",
]


@pytest.mark.parametrize("text", QUIET, ids=range(len(QUIET)))
def test_nothing_is_found(text: str) -> None:
    assert [(found.kind, text[found.start : found.end]) for found in find(text)] == []
