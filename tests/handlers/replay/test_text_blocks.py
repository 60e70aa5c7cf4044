"""Long texts are looked up by blocks, which texts that begin alike share."""

from hypothesis import given
from hypothesis import strategies as st

from replaykit.handlers.replay.taped_requests import LONG_BYTES, TextBlocks


def long_text(tail: bytes, size: int = 3 * LONG_BYTES) -> bytes:
    return b"x" * size + tail


def test_a_short_text_is_its_own_key():
    assert TextBlocks().key("search", b"{}") == b"{}"


def test_a_text_that_has_grown_has_the_blocks_of_the_one_before():
    blocks = TextBlocks()

    before, after = blocks.key("model", long_text(b"1")), blocks.key("model", long_text(b"1,2"))

    assert all(one is other for one, other in zip(before[:-1], after[:-1], strict=True))
    assert blocks.same_bytes == len(long_text(b"1"))


def test_texts_of_two_conversations_by_turns_are_told_apart():
    blocks = TextBlocks()
    texts = [bytes([65 + turn % 2]) * (LONG_BYTES + 100 * turn) for turn in range(6)]

    keys = [blocks.key("model", text) for text in texts]

    assert len(set(keys)) == len(texts)
    assert [b"".join(key) for key in keys] == texts


def test_a_shorter_conversation_after_a_longer_one_shares_its_own_beginnings():
    blocks = TextBlocks()
    blocks.key("model", b"a" * 10 * LONG_BYTES)
    blocks.key("model", b"b" * 2 * LONG_BYTES)

    blocks.key("model", b"b" * (2 * LONG_BYTES + 1))

    assert blocks.same_bytes == 2 * LONG_BYTES


@given(st.lists(st.tuples(st.integers(0, 5 * LONG_BYTES), st.binary(max_size=3)), min_size=2, max_size=6))
def test_keys_are_equal_where_texts_are(shapes):
    texts = [long_text(tail, size) for size, tail in shapes]
    blocks, other = TextBlocks(), TextBlocks()
    keys = [blocks.key("model", text) for text in texts]

    again = [other.key("model", text) for text in reversed(texts)][::-1]

    assert keys == again
    for one, key in zip(texts, keys, strict=True):
        assert [key == another for another in keys] == [one == text for text in texts]
