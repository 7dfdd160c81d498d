"""Frames and tagged values: whatever a worker sends is read, or refused with one kind of error, and never hangs."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge.judge.protocol import Channel, ChannelClosed, ChannelError, ChannelTimeout, ProtocolError
from kforge.judge.values import DTYPES, MAX_DEPTH, MAX_VALUES, Other, TensorAt, decode, encode, leaves, structure

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
TAGS = st.sampled_from(["none", "bool", "int", "float", "complex", "str", "dtype", "list", "tuple", "dict", "tensor"])
TAGGED = st.recursive(
    st.builds(lambda tag, rest: [tag, *rest], TAGS, st.lists(JSON, max_size=3)),
    lambda inner: st.tuples(TAGS, st.lists(inner | st.lists(inner, max_size=2), max_size=4)).map(list),
    max_leaves=12,
)  # fmt: skip
TENSORS = st.builds(
    lambda at, sizes, dtype: TensorAt(at, shape=tuple(sizes), stride=tuple(sizes[::-1]), dtype=dtype),
    st.integers(0, 2**62), st.lists(st.integers(0, 9), max_size=5), st.sampled_from([*DTYPES]),
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.complex_numbers(allow_nan=False) | TENSORS | st.sampled_from([*DTYPES.values()]),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text(max_size=4) | st.integers() | st.booleans() | st.none(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON | TAGGED)
@settings(max_examples=400, deadline=None)
def test_any_value_is_read_or_refused(tagged: object) -> None:
    try:
        value = decode(json.loads(json.dumps(tagged)))
    except ProtocolError:
        return
    for path, leaf in leaves(value):
        assert path.startswith("output")
        if isinstance(leaf, TensorAt):
            assert 0 <= leaf.span < 2**48
            assert leaf.numel < 2**48
    assert structure(value)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_values_come_back_as_they_were(value: object) -> None:
    tagged = json.loads(json.dumps(encode(value, lambda _: TensorAt(0, shape=(), stride=(), dtype="float32"))))
    back = decode(tagged)
    assert back == value
    assert repr(back) == repr(value)  # True is no 1, a tuple no list


@pytest.mark.parametrize("tagged", [
    ["tensor", [-1, [4], [1], "float32"]],
    ["tensor", [0, [4], [-1], "float32"]],
    ["tensor", [0, [4], [1, 1], "float32"]],
    ["tensor", [0, [4], [1], "float31"]],
    ["tensor", [0, [2**40, 2**40], [1, 1], "float32"]],
    ["tensor", [0, [2**20, 2], [2**60, 1], "float32"]],
    ["tensor", [0, [1] * 65, [1] * 65, "float32"]],
    ["tensor", [True, [4.0], [1], "float32"]],
    ["tensor", []],
    ["bool", 1], ["int", True], ["int", 1.0], ["float", "1"], ["str", 1], ["complex", 1], ["dtype", "object"],
    ["dict", [[["list", []], ["none"]]]], ["dict", [["none"]]], ["what"], [], None, "none", 1,
])  # fmt: skip
def test_what_is_no_value_is_refused(tagged: object) -> None:
    with pytest.raises(ProtocolError):
        decode(tagged)


def test_deep_and_large_values_are_refused() -> None:
    deep: list[Any] = ["none"]
    for _ in range(MAX_DEPTH + 1):
        deep = ["list", [deep]]
    with pytest.raises(ProtocolError, match="too deep"):
        decode(deep)
    with pytest.raises(ProtocolError, match="too large"):
        decode(["list", [["none"]] * (MAX_VALUES + 1)])


def test_a_kind_that_is_not_carried_is_named_and_no_more() -> None:
    value = decode(encode({"x": object(), "y": {1}}, lambda _: TensorAt(0, shape=(), stride=(), dtype="float32")))
    assert value == {"x": Other("builtins.object"), "y": Other("builtins.set")}
    assert structure(value) == "dict with 'x': an object of builtins.object, 'y': an object of builtins.set"


def test_float_values_that_json_has_no_number_for_cross() -> None:
    for number in (math.inf, -math.inf, math.nan):
        tagged = json.loads(json.dumps(encode(number, lambda _: TensorAt(0, shape=(), stride=(), dtype="float32"))))
        assert repr(decode(tagged)) == repr(number)


def _pair() -> tuple[Channel, socket.socket]:
    mine, its = socket.socketpair()
    return Channel(mine, 2**16), its


@given(st.binary(max_size=64))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_frame_or_an_error_in_time(data: bytes) -> None:
    channel, its = _pair()
    with its:
        its.sendall(data)
        its.shutdown(socket.SHUT_WR)
        try:
            assert isinstance(channel.receive(5.0), dict)
        except ChannelError:
            pass
        finally:
            channel.close()


def _in_pieces(its: socket.socket, frame: bytes) -> None:
    for at in range(0, len(frame), 7):
        its.sendall(frame[at : at + 7])


@given(st.dictionaries(st.text(max_size=9), JSON.filter(lambda value: value == value), max_size=4))
@settings(max_examples=100, deadline=None)
def test_frames_come_whole_however_they_are_cut(message: dict[str, Any]) -> None:
    channel, its = _pair()
    data = json.dumps(message).encode()
    frame = struct.pack("<I", len(data)) + data
    with its:
        sender = threading.Thread(target=_in_pieces, args=(its, frame))
        sender.start()
        assert channel.receive(5.0) == json.loads(data)
        sender.join()
        channel.close()


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    channel, its = _pair()
    with its:
        yield channel, its
    channel.close()


def test_half_a_frame_is_late(pair: tuple[Channel, socket.socket]) -> None:
    channel, its = pair
    its.sendall(struct.pack("<I", 100) + b"{")
    with pytest.raises(ChannelTimeout):
        channel.receive(0.05)


def test_a_frame_above_the_limit_is_refused_before_it_is_read(pair: tuple[Channel, socket.socket]) -> None:
    channel, its = pair
    its.sendall(struct.pack("<I", 2**16 + 1))
    with pytest.raises(ProtocolError, match="65537 bytes"):
        channel.receive(1.0)


def test_the_end_of_the_other_side_is_told(pair: tuple[Channel, socket.socket]) -> None:
    channel, its = pair
    its.close()
    with pytest.raises(ChannelClosed):
        channel.receive(1.0)
    with pytest.raises(ChannelClosed):
        channel.send({"x": "y" * 2**20}, 1.0)


def test_a_side_that_does_not_read_is_late(pair: tuple[Channel, socket.socket]) -> None:
    channel, _ = pair
    with pytest.raises(ChannelTimeout):
        channel.send({"x": "y" * 2**24}, 0.1)


def test_spans_and_counts_of_strided_tensors() -> None:
    made = torch.rand(6, 8)[::2, 1::3]
    where = TensorAt(0, shape=tuple(made.shape), stride=tuple(made.stride()), dtype="float32")
    assert (where.numel, where.span) == (made.numel(), 2 * 16 + 2 * 3 + 1)
    assert TensorAt(0, shape=(0, 4), stride=(4, 1), dtype="int8").span == 0
