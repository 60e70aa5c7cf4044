"""The agent with its bug fixed."""

import re
import sys

import agent


def amount(text: str) -> float:
    found = re.search(r"\$(\d+\.\d+)", text)
    return float(found[1]) if found else 0.0


agent.amount = amount
agent.main(sys.argv[1])
