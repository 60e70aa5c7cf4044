"""Agents that take apart what redaction replaces: personal data in the input, in arguments and in answers."""

from __future__ import annotations

import ipaddress
import re
import uuid

from collection import failing, main, ran, took

import replaykit as rk

EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")


class Refused(Exception):
    """The request cannot be fulfilled."""


@rk.tool
def find_account(email: str):
    ran("find_account")
    return {"email": email, "state": "closed"}


@failing("Please reset the password of alice.liddell@wonderland.example.com, thank you")
def email_in_the_input(question: str) -> str:
    found = EMAIL.search(question)
    if found is None:
        took("no address")
        return "Which address do you mean?"
    account = find_account(found.group())
    took(account["state"])
    if account["state"] == "closed":
        raise Refused("the account is closed")
    return "reset"


@rk.tool
def mail_servers(domain: str):
    ran("mail_servers")
    return []


@failing("Can you deliver to bob.builder@construction.example.com?")
def domain_of_an_address(question: str) -> str:
    address = question.split()[-1].rstrip("?")
    local, at, domain = address.partition("@")
    if not at or "." not in domain:
        took("no domain")
        return "That is not an address."
    servers = mail_servers(domain)
    took(f"{len(servers)} servers")
    if not servers:
        raise Refused("nobody takes mail there")
    return f"{local} can be reached"


@rk.tool
def send_text(number: str):
    ran("send_text")
    return {"delivered": False}


@failing("Text me at +49 30 90182094 when it is ready")
def digits_of_a_phone_number(question: str) -> str:
    digits = re.sub(r"\D", "", question)
    if not 9 <= len(digits) <= 15:
        took("no number")
        return "Please give me a phone number."
    delivered = send_text("+" + digits)["delivered"]
    took(f"delivered {delivered}")
    if not delivered:
        raise Refused("the text was not delivered")
    return "sent"


def passes_luhn(number: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed([int(char) for char in number if char.isdigit()])):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


@rk.tool
def charge(card: str, cents: int):
    ran("charge")
    return {"approved": False}


@failing("Charge my card 4556 7375 8689 9855 please")
def luhn_of_a_card(question: str) -> str:
    found = re.search(r"(?:\d[ -]?){13,19}", question)
    number = re.sub(r"\D", "", found.group()) if found else ""
    if not number or not passes_luhn(number):
        took("no card")
        return "That is not a card number."
    approved = charge(number, 4999)["approved"]
    took(f"approved {approved}")
    if not approved:
        raise Refused("the card was declined")
    return "charged"


def is_iban(text: str) -> bool:
    moved = text[4:] + text[:4]
    return text.isalnum() and int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


@rk.tool
def transfer(iban: str, cents: int):
    ran("transfer")
    return "insufficient funds"


@failing("Send 20 euros to DE89370400440532013000")
def check_digits_of_an_iban(question: str) -> str:
    iban = question.split()[-1]
    if not is_iban(iban):
        took("no iban")
        return "That is not an account."
    outcome = transfer(iban, 2000)
    took(outcome)
    if outcome != "ok":
        raise Refused(outcome)
    return "sent"


@rk.tool
def block_address(address: str):
    ran("block_address")
    return {"blocked": False}


@failing("Block 203.0.112.77 at the firewall")
def internet_address(question: str) -> str:
    try:
        address = ipaddress.ip_address(question.split()[1])
    except ValueError:
        took("no address")
        return "That is not an address."
    blocked = block_address(str(address))["blocked"]
    took(f"version {address.version}, blocked {blocked}")
    if not blocked:
        raise Refused("the firewall did not answer")
    return "blocked"


@rk.tool
def claims(token: str):
    ran("claims")
    return {"parts": token.count(".") + 1, "valid": False}


@failing(
    "Check eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0."
    "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U now"
)
def parts_of_a_jwt(question: str) -> str:
    token = question.split()[1]
    if token.count(".") != 2:
        took("no token")
        return "That is not a token."
    checked = claims(token)
    took(f"valid {checked['valid']}")
    if not checked["valid"]:
        raise Refused("the token is not valid")
    return "valid"


@rk.tool
def balance(email: str):
    ran("balance")
    return {"email": email, "cents": -500 if email.startswith("carol") else 1000}


@failing("Compare carol@shop.example.com and dave@shop.example.com")
def two_customers_stay_two(question: str) -> str:
    addresses = EMAIL.findall(question)
    balances = {address: balance(address)["cents"] for address in addresses}
    took(f"{len(balances)} balances {sorted(balances.values())}")
    if len(balances) == 2 and min(balances.values()) < 0:
        raise Refused("one of them owes money")
    return "both are fine"


@rk.tool
def open_session(key: str):
    ran("open_session")
    return {"allowed": not key.startswith("sk-")}


@failing("Use the key sk-proj-4fZk2Lq9Rt7Xw1Bv8Nm3Pc6Yd0Hs5Jg2Ka9Te4Uo7Wi1 for this")
def prefix_of_a_key(question: str) -> str:
    key = question.split()[3]
    if not key.startswith("sk-"):
        took("not a key")
        return "That is not a key."
    allowed = open_session(key)["allowed"]
    took(f"allowed {allowed}")
    if not allowed:
        raise Refused("keys may not be pasted")
    return "opened"


@rk.tool
def contact_of(customer: int):
    ran("contact_of")
    return {"customer": customer, "email": "erin.brockovich@hinkley.example.org", "phone": "+1 415 555 2671"}


@failing("Write to customer 12")
def address_in_an_answer(question: str) -> str:
    contact = contact_of(12)
    if not EMAIL.fullmatch(contact["email"]):
        took("no address")
        return "The customer has no address."
    account = find_account(contact["email"])
    took(account["state"])
    if account["email"] == contact["email"]:
        raise Refused("the account is closed")
    return "written"


@rk.tool
def load_session(session: str):
    ran("load_session")
    return {}.get(session)


@failing("Resume session 3f2b8c1e-9d47-4c5a-8e21-7b6f0d9a1c34")
def parsed_uuid(question: str) -> str:
    try:
        session = uuid.UUID(question.split()[-1])
    except ValueError:
        took("no session")
        return "Which session?"
    state = load_session(str(session))
    took(f"version {session.version}")
    if state is None:
        raise Refused("the session has expired")
    return "resumed"


@failing("My number is 536-90-4399, am I eligible?")
def national_id(question: str) -> str:
    found = re.search(r"\b\d{3}-\d{2}-\d{4}\b", question)
    if found is None:
        took("no id")
        return "Please give me your number."
    account = find_account(found.group())
    took(account["state"])
    if account["state"] == "closed":
        raise Refused("not eligible")
    return "eligible"


if __name__ == "__main__":
    main(globals())
