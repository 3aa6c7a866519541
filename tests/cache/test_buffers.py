"""The buffers of a key, written and read."""

from __future__ import annotations

import pytest

from tunebook.cache.buffers import Buffer, buffers_text, parse_buffers


@pytest.mark.parametrize(
    ("buffers", "text"),
    [
        (
            (Buffer("f32", (1, 64), False), Buffer("i8", (), False), Buffer("bool", (7,), True)),
            "f32[1,64] i8[] -> bool[7]",
        ),
        ((Buffer("bf16", (2, 3), True), Buffer("u8", (4,), True)), "-> bf16[2,3] u8[4]"),
    ],
)
def test_what_is_written_is_read_back(buffers: tuple[Buffer, ...], text: str) -> None:
    assert buffers_text(buffers) == text
    assert parse_buffers(text) == buffers


def test_inputs_come_before_outputs() -> None:
    buffers = (Buffer("f32", (2,), True), Buffer("f16", (1,), False))
    assert buffers_text(buffers) == "f16[1] -> f32[2]"


@pytest.mark.parametrize(
    ("dtype", "short"),
    [("float32", "f32"), ("bfloat16", "bf16"), ("uint8", "u8"), ("int64", "i64"), ("bool", "bool")],
)
def test_dtypes_that_are_spelled_out_are_shortened(dtype: str, short: str) -> None:
    assert buffers_text((Buffer(dtype, (3,), True),)) == f"-> {short}[3]"
