"""`tunebook token`: who may ask a coordinator for what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from tunebook.cache.access.tokens import Role, Token
from tunebook.service.commands.options import AsJson, DatabaseUrl, open_store
from tunebook.service.output import print_json, print_table, print_text

app = typer.Typer(
    help="Make, list and revoke the access tokens of a coordinator, in its database.",
    no_args_is_help=True,
)


class TokenDocument(BaseModel):
    """A token as machines read it; `secret` is told when it is made, and never again."""

    id: int
    name: str
    role: Role
    board: str | None
    prefix: str
    created_at: str
    revoked_at: str | None
    secret: str | None = None


class TokensDocument(BaseModel):
    """Every token as machines read them, oldest first."""

    tokens: list[TokenDocument]


@app.command("create")
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Who will use it: `nightly`, `ci-vision`.")
    ],
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            help="read: look-ups and the pages; submit: jobs and models too; worker: for workers "
            "on other hosts; board: one board; admin: everything.",
        ),
    ] = Role.READ,
    board: Annotated[
        str,
        typer.Option(
            "--board", metavar="CLASS/BOARD", help="The one board of a token of role board."
        ),
    ] = "",
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print its secret, which is stored nowhere."""
    with open_store(db) as store:
        made = store.tokens.create(name, role, board)
    if as_json:
        print_json(_document(made.token, made.secret))
        return
    print_text(made.secret)


@app.command("list")
def list_tokens(db: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List every token, revoked ones too."""
    with open_store(db, read_only=True) as store:
        tokens = store.tokens.list()
    if as_json:
        print_json(TokensDocument(tokens=[_document(token) for token in tokens]))
        return
    if not tokens:
        print_text("There are no tokens; `tunebook token create NAME --role ROLE` makes one.")
        return
    table = Table()
    for column in ("id", "name", "role", "board", "begins with", "made", "revoked"):
        table.add_column(column, no_wrap=True)
    for token in tokens:
        table.add_row(
            str(token.id),
            token.name,
            token.role.value,
            token.board,
            token.prefix,
            _moment(token.created_at),
            _moment(token.revoked_at),
        )
    print_table(table)


@app.command("revoke")
def revoke(
    token_id: Annotated[
        int, typer.Argument(metavar="ID", help="The number that `tunebook token list` shows.")
    ],
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """End a token for good: the next request with it is refused."""
    with open_store(db) as store:
        token = store.tokens.revoke(token_id)
    if as_json:
        print_json(_document(token))
        return
    print_text(f"The token {token.id} ({token.name}, {token.role.value}) is revoked.")


def _document(token: Token, secret: str | None = None) -> TokenDocument:
    return TokenDocument(
        id=token.id,
        name=token.name,
        role=token.role,
        board=token.board or None,
        prefix=token.prefix,
        created_at=_moment(token.created_at),
        revoked_at=_moment(token.revoked_at) or None,
        secret=secret,
    )


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
