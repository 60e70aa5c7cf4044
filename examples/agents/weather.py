"""A small agent with a state, steps and a scripted model: the subject of the time-travel examples.

The weather service answers with stale data for a while. The agent asks again until the data is fresh, or until it has
asked `max_retries` times; then it answers with what it has. Nothing here needs a network or a key.
"""

from __future__ import annotations

from typing import Any

import replaykit as rk

CITIES = {"san francisco": (37.77, -122.42), "berlin": (52.52, 13.4)}
FRESH_AFTER = 4


def choose(state: dict[str, Any]) -> str:
    """The scripted model: what to do next."""
    if state["place"] is None:
        return "geocode"
    if state["weather"] is None or (state["weather"]["stale"] and state["tries"] < state["max_retries"]):
        return "get_weather"
    return "answer"


@rk.tool(effects="none")
def geocode(query: str) -> dict[str, Any]:
    """Where is the city that the question names?"""
    for city, (lat, lon) in CITIES.items():
        if city in query.lower():
            return {"city": city.title(), "lat": lat, "lon": lon}
    raise LookupError(f"no city in {query!r}")


@rk.tool(effects="none")
def get_weather(lat: float, lon: float, attempt: int) -> dict[str, Any]:
    """The weather there; stale until the service has woken up."""
    return {"sky": "fog", "celsius": 14, "stale": attempt < FRESH_AFTER}


def new_state(query: str) -> dict[str, Any]:
    return {"query": query, "place": None, "weather": None, "tries": 0, "max_retries": 5, "answer": None}


@rk.record("weather", agent="weather", agent_version="1.0")
def agent(query: str, state: dict[str, Any] | None = None) -> str:
    """Answer a question about the weather; goes on from `state` where one is given."""
    with rk.record("weather") as run:  # the run that the decorator began, or the one that is replayed
        state = state or new_state(query)
        while state["answer"] is None:
            with run.step(f"step_{_number(state)}", state=state) as step:
                state = step.done(_advance(step, state))
        return str(state["answer"])


def _number(state: dict[str, Any]) -> int:
    """Steps are numbered by how far the state has come, so that a resumed run goes on counting."""
    return 1 + (state["place"] is not None) + int(state["tries"])


def _advance(step: Any, state: dict[str, Any]) -> dict[str, Any]:
    decision = choose(state)
    step.decide(decision)
    if decision == "geocode":
        return {**state, "place": geocode(state["query"])}
    if decision == "get_weather":
        place, tries = state["place"], state["tries"] + 1
        return {**state, "weather": get_weather(place["lat"], place["lon"], tries), "tries": tries}
    weather = state["weather"]
    doubt = " (the data may be out of date)" if weather["stale"] else ""
    return {**state, "answer": f"{weather['sky'].title()}, {weather['celsius']} °C in {state['place']['city']}{doubt}."}
