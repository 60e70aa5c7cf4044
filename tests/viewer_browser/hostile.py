"""Payloads of people who want a page to run, load, hide or break something."""

from __future__ import annotations

from replaykit.model.values import Json

ALERT = "alert(1)"
URL = "http://127.0.0.1:9/stolen"


def _deep(depth: int) -> Json:
    value: Json = "bottom"
    for _ in range(depth):
        value = {"down": [value]}
    return value


PAYLOADS: tuple[Json, ...] = (
    f"<script>{ALERT}</script>",
    f"</script><script>{ALERT}</script>",
    f"<img src=x onerror={ALERT}>",
    f'"><img src=x onerror="{ALERT}">',
    f"<svg onload={ALERT}>",
    f"<svg><script>{ALERT}</script></svg>",
    f"<svg><animate onbegin={ALERT} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{ALERT}"><text y=20>x</text></a></svg>',
    f"<math><mtext><table><mglyph><style><img src=x onerror={ALERT}>",
    f"<iframe src='javascript:{ALERT}'></iframe>",
    f"<iframe srcdoc='<script>{ALERT}</script>'></iframe>",
    f"<object data='javascript:{ALERT}'></object>",
    f"<embed src='javascript:{ALERT}'>",
    f"<a href='javascript:{ALERT}'>click</a>",
    f"<form action='javascript:{ALERT}'><button>go</button></form>",
    f"<button formaction=javascript:{ALERT}>go</button>",
    f"<input autofocus onfocus={ALERT}>",
    f"<details open ontoggle={ALERT}>",
    f"<video><source onerror={ALERT}></video>",
    f"<audio src=x onerror={ALERT}>",
    f"<body onload={ALERT}>",
    f"<marquee onstart={ALERT}>",
    f"<link rel=stylesheet href={URL}>",
    f"<link rel=prefetch href={URL}>",
    f"<meta http-equiv=refresh content='0;url={URL}'>",
    f"<base href={URL}>",
    f"<img src={URL}>",
    f"<style>@import '{URL}';</style>",
    f"<style>body{{background:url({URL});display:none}}</style>",
    "<style>*{display:none!important}</style>",
    f"<div style='background:url({URL})'>x</div>",
    "<div style='position:fixed;inset:0;z-index:9999;background:red'>x</div>",
    f"javascript:{ALERT}",
    f"data:text/html,<script>{ALERT}</script>",
    f"vbscript:{ALERT}",
    f"#/run/x?path=<img src=x onerror={ALERT}>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    f"`${{{ALERT}}}`",
    f"'-{ALERT}-'",
    f'";{ALERT}//',
    f"<!--<img src=x onerror={ALERT}>-->",
    f"<![CDATA[<script>{ALERT}</script>]]>",
    f"&lt;script&gt;{ALERT}&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    f"<template><script>{ALERT}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={ALERT}>'>",
    f"<textarea></textarea><script>{ALERT}</script>",
    f"<title></title><script>{ALERT}</script>",
    "\u202eevil\u202c reversed \u2066isolate\u2069",
    "zero\u200bwidth\u200djoiner\ufeff and soft\u00adhyphen",
    "\u001b[31mred\u001b[0m\u0007\u0008\u0000 control",
    "tag\U000e0041\U000e0042 characters and \u3164 filler",
    "Z" + "\u0351\u0352\u0353\u0354\u0355" * 60 + "algo",
    "W" * 20_000,
    "wide 　" * 2_000,
    "line\n" * 5_000,
    "A" * 1_000_000,
    "__proto__",
    "constructor",
    "\u0600\u0601 العربية עברית mixed 123",
    "",
    _deep(70),
    {"__proto__": {"polluted": True}, "constructor": {"prototype": {"polluted": True}}},
    list(range(5_000)),
    {f"key {number}": number for number in range(2_000)},
)
