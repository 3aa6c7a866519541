"""A mending command runs as it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tunebook.service.mending import Boards, CommandOptions, database_to_name, fill_in

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
TUNE = f"tunebook tune MODEL --target '{A76}' --more 16"
BUILD = f"tunebook build MODEL --target '{A76}' -o OUT --accept-emulated"
PLAIN = CommandOptions(Path("net.onnx"), Path("out/net"))


@pytest.mark.parametrize(
    ("command", "options", "filled"),
    [
        (TUNE, PLAIN, f"tunebook tune net.onnx --target '{A76}' --more 16"),
        (
            BUILD,
            PLAIN,
            f"tunebook build net.onnx --target '{A76}' -o out/net --accept-emulated",
        ),
        (
            TUNE,
            CommandOptions(Path("my net.onnx"), Path("out"), ("a=1,3", "the b=2")),
            f"tunebook tune 'my net.onnx' --target '{A76}' --more 16 "
            "--shape a=1,3 --shape 'the b=2'",
        ),
        (
            TUNE,
            CommandOptions(
                Path("net.onnx"), Path("out"), (), "my book.db", Boards("pi5", "192.0.2.1:9190")
            ),
            f"tunebook tune net.onnx --target '{A76}' --more 16 --boards pi5 "
            "--tracker 192.0.2.1:9190 --db 'my book.db'",
        ),
        (
            TUNE,
            CommandOptions(Path("net.onnx"), Path("out"), (), None, Boards("emulated-aarch64")),
            f"tunebook tune net.onnx --target '{A76}' --more 16 --boards emulated-aarch64",
        ),
        (
            BUILD,
            CommandOptions(Path("net.onnx"), Path("out"), (), "book.db", Boards("pi5", "h:1")),
            f"tunebook build net.onnx --target '{A76}' -o out --accept-emulated --db book.db",
        ),
    ],
    ids=["tune", "build", "shapes", "boards", "emulated", "build-takes-no-boards"],
)
def test_placeholders_and_options_are_filled_in(
    command: str, options: CommandOptions, filled: str
) -> None:
    assert fill_in(command, options) == filled


@pytest.mark.parametrize("name", ["a b", "it's", '"', "$HOME", "a;b", "*", "MODEL"])
def test_whatever_a_name_holds_the_shell_gives_it_back(name: str) -> None:
    options = CommandOptions(Path(name), Path("out"), (f"{name}=1",), name)
    words = shlex.split(fill_in(TUNE, options))
    assert words == [
        *("tunebook", "tune", name, "--target", A76, "--more", "16"),
        *("--shape", f"{name}=1", "--db", name),
    ]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (None, None),
        ("book.db", "book.db"),
        ("sqlite:///book.db", "sqlite:///book.db"),
        ("postgresql://me:secret@host/book", "postgresql+psycopg://me:***@host/book"),
    ],
)
def test_a_database_is_named_without_its_password(
    given: str | None, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNEBOOK_DATABASE_URL", raising=False)
    assert database_to_name(given) == named


def test_a_database_of_the_environment_need_not_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEBOOK_DATABASE_URL", "postgresql://me:secret@host/book")
    assert database_to_name("postgresql://me:secret@host/book") is None
