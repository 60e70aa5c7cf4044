"""Agents that look at the form of what they are given. Each fails, and finds its tool by the value or a part of it."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import uuid

import replaykit as rk


@rk.tool
def lookup(value: str) -> dict[str, bool]:
    return {"found": False}


@rk.tool
def policy(domain: str) -> dict[str, bool]:
    return {"is_known": True}


def _fail(value: str) -> None:
    if not lookup(value)["found"]:
        raise RuntimeError("no such customer")


def finds_an_address(text: str) -> str:
    found = re.search(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}", text)
    if found is None:
        return "Nothing to do."
    _fail(found[0])
    return "Done."


def splits_an_address(text: str) -> str:
    words = [word for word in text.split() if "@" in word]
    domain = words[0].split("@")[1] if words else ""
    if not domain or not policy(domain)["is_known"]:
        return "Nothing to do."
    _fail(words[0].lower())
    return "Done."


def names_a_person(text: str) -> str:
    name = text.split("@")[0].split()[-1]
    if "@" not in text:
        return "Nothing to do."
    _fail(name)
    return "Done."


def compares_companies(text: str) -> str:
    sender, receiver = (word.split("@")[1] for word in text.split() if "@" in word)
    if sender == receiver:
        return "An internal message."
    _fail(f"{sender} to {receiver}")
    return "Done."


def takes_digits(text: str) -> str:
    digits = re.sub(r"\D", "", text)
    if len(digits) != 11 or not digits.startswith("1"):
        return "Nothing to do."
    _fail(digits)
    return "Done."


def checks_luhn(text: str) -> str:
    digits = [int(digit) for digit in re.sub(r"\D", "", text)]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    if len(digits) != 16 or (sum(digits[-1::-2]) + doubled) % 10:
        return "That is no card."
    _fail("".join(map(str, digits)))
    return "Done."


def checks_an_iban(text: str) -> str:
    account = text.partition(":")[2].replace(" ", "")
    number = "".join(str(int(char, 36)) for char in account[4:] + account[:4])
    if len(account) != 22 or int(number) % 97 != 1:
        return "That is no account."
    _fail(account)
    return "Done."


def reads_a_social_security_number(text: str) -> str:
    found = re.search(r"\b(\d{3})-(\d{2})-(\d{4})\b", text)
    if found is None:
        return "Nothing to do."
    _fail(found[0])
    return "Done."


def parses_an_address_of_a_machine(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.split()[-1])
    except ValueError:
        return "Nothing to do."
    _fail(str(address))
    return "Done."


def decodes_a_token(text: str) -> str:
    found = re.search(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", text)
    parts = found[0].split(".") if found else []
    if len(parts) != 3:
        return "Nothing to do."
    header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    if header["alg"] != "HS256":
        return "Not ours."
    _fail(found[0] if found else "")
    return "Done."


def parses_a_uuid(request: dict[str, str]) -> str:
    try:
        key = uuid.UUID(request["api_key"])
    except ValueError:
        return "Nothing to do."
    _fail(str(key))
    return "Done."


def counts_a_number(request: dict[str, int]) -> str:
    if not isinstance(request["phone"], int):
        return "Nothing to do."
    _fail(str(request["phone"]))
    return "Done."


def reads_a_key(text: str) -> str:
    key = text.split()[-1]
    if not key.startswith("sk-proj-"):
        return "Nothing to do."
    _fail(key)
    return "Done."
