"""Texts of unknown origin are shown so that every character of them is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from tunebook.service.dashboard.visible_text import one_line, visible

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv2d+relu", "conv2d+relu"),
        ("Straße 北京", "Straße 北京"),
        ("a\nb\tc", "a\nb\tc"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("\x1b[2J", "\\x1b[2J"),
        ("half \ud800", "half \\ud800"),
        ("nul\x00", "nul\\x00"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_markup_or_no_text_stays_as_it_is() -> None:
    markup = Markup("<b>\x00</b>")
    assert visible(markup) is markup
    assert visible(3) == 3
    assert visible(None) is None


@given(ANY_TEXT)
def test_whatever_is_shown_can_be_sent(text: str) -> None:
    assert all(one.isprintable() or one in "\n\t" for one in visible(text))
    visible(text).encode()


@given(ANY_TEXT)
def test_a_command_to_copy_is_one_printable_line(text: str) -> None:
    assert one_line(text).isprintable()


def test_a_line_end_in_a_command_does_not_run_what_stands_before_it() -> None:
    assert one_line("tunebook tune a\nrm -rf ~\r") == "tunebook tune a\\nrm -rf ~\\r"
