"""After signing in one lands on this coordinator, and nowhere else."""

from __future__ import annotations

import pytest

from tunebook.service.dashboard.signing_in import form_code, own_address


@pytest.mark.parametrize("asked", ["/", "/?window=7d&target=llvm%20-x", "/running-jobs"])
def test_an_address_of_ours_is_followed(asked: str) -> None:
    assert own_address(asked) == asked


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "//elsewhere.example/",
        "/\\elsewhere.example",
        "https://elsewhere.example/",
        "javascript:alert(1)",
        "elsewhere",
        "/a b",
        "/\t/elsewhere.example",
        "/\r\nSet-Cookie: a=b",
    ],
)
def test_any_other_address_is_not(asked: str) -> None:
    assert own_address(asked) == "/"


def test_each_cookie_has_a_form_code_of_its_own_that_does_not_tell_the_cookie() -> None:
    assert form_code("one") == form_code("one")
    assert form_code("one") != form_code("other")
    assert "one" not in form_code("one")
