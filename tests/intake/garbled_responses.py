"""A transport that changes what services say, as Hypothesis wants it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from replaykit.intake.services.client import ServiceReply, ServiceRequest
from replaykit.intake.services.transport import Transport

WAYS = ("as it is", "as it is", "cut", "bytes", "status", "other", "member", "member")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Garbling(Transport):
    """Cuts an answer, says another in its place, or changes a value in it."""

    data: st.DataObject

    def __call__(self, request: ServiceRequest) -> ServiceReply:
        reply = super().__call__(request)
        way = self.data.draw(st.sampled_from(WAYS))
        if way == "cut":
            return ServiceReply(reply.status, reply.body[: self.data.draw(st.integers(0, len(reply.body)))])
        if way == "bytes":
            return ServiceReply(200, self.data.draw(st.binary(max_size=30)))
        if way == "status":
            return ServiceReply(self.data.draw(st.sampled_from([204, 301, 400, 403, 404, 418, 422])), reply.body)
        if way == "other":
            return ServiceReply(200, json.dumps(self.data.draw(JSON)).encode())
        return self._with_a_change(reply) if way == "member" else reply

    def _with_a_change(self, reply: ServiceReply) -> ServiceReply:
        try:
            value = json.loads(reply.body)
        except ValueError:
            return reply
        return ServiceReply(200, json.dumps(self._changed(value)).encode())

    def _changed(self, value: Any) -> Any:
        """The value with one thing in it that is something else."""
        if isinstance(value, dict) and value:
            key = self.data.draw(st.sampled_from(sorted(value)))
            return {**value, key: self._changed(value[key])}
        if isinstance(value, list) and value:
            index = self.data.draw(st.integers(0, len(value) - 1))
            return [*value[:index], self._changed(value[index]), *value[index + 1 :]]
        return self.data.draw(JSON)


def garbling(data: st.DataObject) -> type[Garbling]:
    """The transport, for what Hypothesis draws this time."""
    return type("Garbled", (Garbling,), {"data": data})
