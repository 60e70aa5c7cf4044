"""Keys: the identity of a request, by which an equal request finds the recorded answer.

A key is canonical JSON of the request. It includes everything that can change the answer: model, parameters, tools, all
messages in order, and whether the answer is streamed (a recorded stream does not answer a plain request). It excludes
everything that cannot:

- Ids that the provider mints (of calls, messages, items, responses), signatures and encrypted reasoning become `#1`,
  `#2`, … in order of first appearance: the same conversation with other ids has the same key, and one that answers
  another call has another.
- The order of consecutive tool results, which carry the ids of their calls: which tool finished first is chance.
- Members about the caller: `metadata`, `user`, `safety_identifier`, `prompt_cache_key`, `labels` and the like never
  reach the model.
- The order of keys, insignificant whitespace, the spelling of an unstreamed request, and whether a whole number is
  written as one: JavaScript writes `1` where Python writes `1.0`.
"""

from __future__ import annotations

import re

import orjson

from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, dumps
from replaykit.wire.api import ModelApi
from replaykit.wire.dialect import MintedIds
from replaykit.wire.json_fields import load_object, plain_numbers

_CALLER_MEMBERS = words_of(
    "metadata user safety_identifier prompt_cache_key prompt_cache_options prompt_cache_retention "
    "user_profile_id workspace_id labels fallback_credit_token"
)

_WHOLE = re.compile(rb"\.0[],}]")  # a whole number not written as one, or a text that looks so
_Plan = tuple[tuple[str, ...], tuple[str, ...], bool]


def match_key(api: ModelApi, request: bytes) -> bytes:
    """Return the bytes that determine whether two requests are equal; see above. Anything but JSON is its own key."""
    body = load_object(request)
    if body is None:
        return request
    try:
        key = _key(api, body)
        if key.find(b".0") >= 0 and _WHOLE.search(key):  # the first search is five times as fast
            return dumps(plain_numbers(orjson.loads(key)))
        return key
    except (RecursionError, orjson.JSONEncodeError):  # nested deeper than the conversation of any API
        return request


def _key(api: ModelApi, body: JsonObject) -> bytes:
    request_parts = api.dialect.read_request(body)
    if api.streamed is None:
        streamed = request_parts.streamed
    else:
        streamed = api.streamed
    key = {name: value for name, value in body.items() if name not in _CALLER_MEMBERS and name != "stream"}
    if api.model:
        key.setdefault("model", api.model)
    if streamed:
        key["stream"] = True
    names = _IdNames(api.dialect.minted)
    for name in api.dialect.minted.conversation:
        names.rename(value if type(value := key.get(name)) is list else [value])
    for path in api.dialect.minted.state:
        names.rename_at(key, path)
    return dumps(key, option=orjson.OPT_SORT_KEYS)


class _IdNames:
    """Stable names for minted ids, in an order that does not depend on the order of keys.

    Works in place, on a value that was parsed for this key alone.
    """

    def __init__(self, minted: MintedIds) -> None:
        self._minted = minted
        self._has_nothing = frozenset((*minted.ids, *minted.into, minted.sealed[1])).isdisjoint
        self._assigned: dict[str, str] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def rename(self, items: list[Json]) -> None:
        """Rename the ids in a part of the conversation."""
        answers, in_order = self._minted.answers, 0
        for index, value in enumerate(items):
            if type(value) is not dict or self._has_nothing(value):
                continue
            if index >= in_order and answers in value:
                in_order = self._put_in_order(items, index)
                value = items[index]
            # Conversations have thousands of objects of a few shapes: plan once for each shape.
            shape = tuple(value)
            ids, below, sealed = self._plans.get(shape) or self._plan(shape)
            for name in ids:
                if type(value[name]) is str:
                    value[name] = self._name(value[name])
            if sealed and value["type"] == self._minted.sealed[0]:
                self.rename_at(value, self._minted.sealed[1:])
            for name in below:
                item = value[name]
                if type(item) is list:
                    self.rename(item)
                elif type(item) is dict:
                    self.rename([item])

    def _put_in_order(self, items: list[Json], start: int) -> int:
        """Sort consecutive tool results by the order of their calls; return where they end."""
        member, end = self._minted.answers, start
        places: list[int] = []
        while end < len(items) and type(item := items[end]) is dict and type(call_id := item.get(member)) is str:
            name = self._assigned.get(call_id)
            if name is None:
                break
            places.append(int(name[1:]))
            end += 1
        if places != sorted(places):
            rows = sorted(zip(places, items[start:end], strict=True), key=lambda row: row[0])
            items[start:end] = [item for _, item in rows]
        return end

    def _plan(self, shape: tuple[str, ...]) -> _Plan:
        """Return the members with ids, those with nested objects, and whether one may be sealed."""
        minted = self._minted
        ids = tuple(name for name in minted.ids if name in shape)
        below = tuple(name for name in minted.into if name in shape)
        plan = self._plans[shape] = ids, below, minted.sealed[1] in shape and "type" in shape
        return plan

    def rename_at(self, value: Json, path: tuple[str, ...]) -> None:
        """Rename the id at the path, if there is one."""
        *parents, last = path
        for name in parents:
            if type(value) is dict:
                value = value.get(name)
            else:
                value = None
        if type(value) is dict and type(value.get(last)) is str:
            value[last] = self._name(value[last])

    def _name(self, minted: str) -> str:
        name = self._assigned.get(minted)
        if name is None:
            name = self._assigned[minted] = f"#{len(self._assigned) + 1}"
        return name
