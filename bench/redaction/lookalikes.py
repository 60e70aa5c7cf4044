"""Whole texts about secrets that hold none: code, configuration and documents that only speak of them.

`%w` is an invented word, so that no two samples are the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .forms import ALNUM, LOWER_HEX, Form, encoded, pick, word
from .marked import Marked, plain

_TEXTS = {
    "environ": 'client = Client(api_key=os.environ["%W_API_KEY"], timeout=30)\n',
    "getenv": 'password = os.getenv("%W_PASSWORD", "")\nif not password:\n    raise SystemExit("no password")\n',
    "process-env": "const apiKey = process.env.%W_API_KEY;\nconst secret = process.env['%W_SECRET'];\n",
    "shell-variable": 'export API_KEY=${%W_SECRET}\ncurl -H "Authorization: Bearer $TOKEN" https://%w.io/\n',
    "compose": "environment:\n  POSTGRES_PASSWORD: ${%W_PASSWORD:?set it}\n  API_KEY: ${API_KEY}\n",
    "actions": "env:\n  NPM_TOKEN: ${{ secrets.%W_TOKEN }}\n  password: ${{ secrets.PASSWORD }}\n",
    "helm": 'password: {{ .Values.%w.password | quote }}\napiKey: {{ required "apiKey" .Values.apiKey }}\n',
    "vault": "password: vault:secret/data/%w#password\ntoken_file: /run/secrets/%w_token\n",
    "command": "export DB_PASSWORD=$(cat /run/secrets/%w)\nTOKEN=`%w print-token`\n",
    "placeholder-angle": "%W_API_KEY=<your-api-key>\nclient_secret: <client-secret>\n",
    "placeholder-your": 'api_key = "YOUR_API_KEY"  # get one at https://%w.io/keys\n',
    "placeholder-stars": "%w logged in, password=********, api_key: ****************\n",
    "placeholder-x": '{"service": "%w", "api_key": "xxxxxxxxxxxxxxxxxxxxxxxx", "password": "XXXXXXXX"}\n',
    "placeholder-dots": "Set %W_KEY to your key, it looks like sk-... or sk-ant-...\n",
    "placeholder-redacted": '{"%w": 1, "authorization": "[REDACTED]", "password": "[FILTERED]"}\n',
    "empty": '{"user": "%w", "password": "", "token": null, "api_key": ""}\n',
    "boolean": "%w:\n  require_password: true\n  token: false\n  use_secret: yes\n",
    "hash-call": "password_hash = hasher.hash(password)\nif not verify(%w.password, password_hash): raise Denied\n",
    "signature": "def login(self, username: str, password: str, token: str | None = None) -> %W:\n    ...\n",
    "attribute": "self.password = password\nself._api_key = api_key or settings.%w_api_key\nreturn self.token\n",
    "typescript": "interface %W { password: string; apiKey?: string; accessToken: Promise<string> }\n",
    "java-getter": "public String getPassword() { return this.password; }\nprivate String %wApiKey;\n",
    "go-struct": 'type %W struct {\n\tPassword string `json:"password"`\n\tToken *Token `json:"token,omitempty"`\n}\n',
    "sql-schema": "CREATE TABLE %w (password VARCHAR(255) NOT NULL, api_key TEXT, token_expires_at TIMESTAMP);\n",
    "openapi": "%w:\n  properties:\n    password: {type: string, format: password}\n    token: {type: string}\n",
    "html-form": '<label for="password">%w</label><input type="password" name="password" autocomplete="off">\n',
    "i18n": '{"password": "Enter your password", "token": "Your token for %w", "secret": "Keep this secret"}\n',
    "tokenizer": 'tokenizer = AutoTokenizer.from_pretrained("%w/%w")\nmax_tokens = len(tokenizer.encode(text))\n',
    "usage": '{"model": "%w", "usage": {"prompt_tokens": 812, "completion_tokens": 96, "total_tokens": 908}}\n',
    "sampling": '{"model": "%w", "max_tokens": 1024, "stop_token": "</s>", "logit_bias": {"50256": -100}}\n',
    "tokens-code": 'token = tokens[i]\nif token == "%w" or token.kind is TokenKind.NAME:\n    token = next(stream)\n',
    "key-code": 'key = "%w"\nsort_key = lambda row: row["%w"]\nprimary_key = "id"\nfor key, value in items: ...\n',
    "ui-key": '<li key="%w-item-row-12" data-key="%w_list_entry">…</li>\n',
    "keyboard": '{"key": "ArrowLeft", "keyCode": 37, "command": "%w.moveCursor"}\n',
    "prose": "The password of %w was changed last week; ask them for the token, it must not be in this ticket.\n",
    "prose-policy": "A secret key has to be 32 characters or longer. Passwords of %w end after 90 days.\n",
    "prose-de": "Das Passwort für %w liegt im Tresor, der Schlüssel bei der Leitung.\n",
    "error-auth": "401 Unauthorized: invalid api key for %w\nAuthenticationError: token expired at 10:22\n",
    "error-missing": "KeyError: 'api_key'\nConfigError: %w.password is required\n",
    "commit-message": "fix(%w): do not log access_token, rename clientSecret to client_secret\n",
    "decorator": "@app.route('/%w')\n@pytest.mark.parametrize('password', cases)\n@dataclass\nclass %W: ...\n",
    "css-at": "@media (max-width: 640px) { .%w { color: #1a2b3c } }\n@import url('%w@2x.css');\n",
    "twitter": "thanks @%w and @%w_dev, see you at 10!\n",
    "ssh-config": "Host %w\n  HostName %w.internal\n  User git\n  IdentityFile ~/.ssh/id_ed25519\n",
    "npmrc": "registry=https://npm.%w.io/\n//npm.%w.io/:_authToken=${NPM_TOKEN}\nalways-auth=true\n",
    "http-options": "OPTIONS /%w HTTP/1.1\r\nAccess-Control-Allow-Headers: authorization, x-api-key, x-%w\r\n\r\n",
    "auth-challenge": 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm="%w", error="invalid_token"\r\n\r\n',
    "url-plain": "https://%w.io:8443/docs/%w?page=2&sort=token&tab=password#api-key\n",
    "connection-plain": "postgresql://%w.internal:5432/orders and redis://%w:6379/0 need no password\n",
    "connection-variable": "DATABASE_URL=postgresql://${DB_USER}:${DB_PASSWORD}@%w.internal:5432/orders\n",
    "regex": 'PHONE = re.compile(r"\\+?\\d{1,3}[ -]?\\(?\\d{3}\\)?[ -]?\\d{3}")  # %w\nEMAIL = r"[^@]+@[^@]+\\.[a-z]+"',
    "pem-public": "-----BEGIN CERTIFICATE REQUEST-----\n%b\n-----END CERTIFICATE REQUEST-----\n%w\n",
    "ssh-public": "ssh-rsa %b\n",
    "minified": "!function(e,t){var n=%w,r={a:1};function o(e){return n[e]||(n[e]=t(e))}e.exports=o,o.k='%h'}(this);\n",
    "webpack": '"use strict";(self.chunk%w=self.chunk%w||[]).push([[%d],{%d:(e,t,n)=>{n.d(t,{Z:()=>r})}}]);',
    "package-lock": '"node_modules/%w": {\n  "version": "4.17.21",\n  "integrity": "sha512-%b=="\n}\n',
    "poetry-lock": '{file = "%w-2.1.0-py3-none-any.whl", hash = "sha256:%h"},\n',
    "git-log": "commit %h\nMerge: %g %g\nDate:   Wed Mar 4 10:22:31 2026 +0100\n\n    rename %w to %w\n",
    "git-diff": "diff --git a/%w.py b/%w.py\nindex %g..%g 100644\n--- a/%w.py\n+++ b/%w.py\n",
    "docker-ps": '%g   %w:1.25.3   "/entrypoint.sh"   2 hours ago   Up 2 hours   8080/tcp   %w\n',
    "svg": '<path d="M12.5 3.25c-4.694 0-8.5 3.806-8.5 8.5s3.806 8.5 8.5 8.5" fill="#%c" id="%w"/>\n',
    "matrix": "[[0.1284, -1.0931, 4.2210], [12.7781, 0.0004, -3.1415], [100.25, 200.5, 300.75]]  # %w\n",
    "table": "%w  2019  2020  2021  2022\nsold  10482  11873  12984  13055\nback    102    118    131    129\n",
    "stack-address": "0x00007f8a1c2b3d40 in %w (argc=2) at %w.c:118\n#3 0x0000555555555189 in main ()\n",
    "assembly": "%w, Version=4.8.0.0, Culture=neutral, PublicKeyToken=b03f5f7f11d50a3a\n",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML) Chrome/121.0.6167.85 %w/1.0\n",
}
_DRAW: dict[str, Callable[[random.Random], str]] = {
    "%w": word,
    "%W": lambda rng: word(rng).upper(),
    "%h": lambda rng: pick(rng, LOWER_HEX, 40),
    "%g": lambda rng: pick(rng, LOWER_HEX, 9),
    "%c": lambda rng: pick(rng, LOWER_HEX, 6),
    "%d": lambda rng: str(rng.randint(1000, 9999)),
    "%b": lambda rng: f"AAAAB3NzaC1yc2EAAAADAQABAAABgQ{encoded(rng, 66)}{pick(rng, ALNUM, 12)}",
}


def _filled(shape: str) -> Callable[[random.Random], Marked]:
    def make(rng: random.Random) -> Marked:
        text = shape
        for mark, draw in _DRAW.items():
            while mark in text:
                text = text.replace(mark, draw(rng), 1)
        return plain(text)

    return make


TEXTS = [Form(f"no-text-{name}", _filled(shape), whole=True) for name, shape in _TEXTS.items()]
