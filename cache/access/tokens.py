"""Access tokens: made once, stored as hashes, revoked at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import select

from tunebook.cache.access.hashed_secrets import new_secret, secret_hash
from tunebook.cache.board_names import check_board_address
from tunebook.cache.errors import NotFoundError, UsageError
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.revisions import TOKENS, bump
from tunebook.cache.storage.tables import TokenRow

# Of the random part: enough to tell tokens of a role apart, and too little to guess the rest.
_SHOWN_CHARACTERS = 4
_LONGEST_NAME = 100


class Role(str, Enum):
    """What a token is for."""

    READ = "read"
    SUBMIT = "submit"
    WORKER = "worker"
    BOARD = "board"
    ADMIN = "admin"

    def may(self, needed: Role) -> bool:
        """Whether a token of this role may do what needs `needed`."""
        return needed in _RIGHTS[self]


_RIGHTS = {
    Role.READ: frozenset({Role.READ}),
    Role.SUBMIT: frozenset({Role.READ, Role.SUBMIT}),
    Role.WORKER: frozenset({Role.READ, Role.WORKER}),
    Role.BOARD: frozenset({Role.BOARD}),
    Role.ADMIN: frozenset(Role),
}


@dataclass(frozen=True)
class Token:
    """An access token without its secret. `board` names the one board of a token of role board, as
    `CLASS/BOARD`; `prefix` is how the secret begins."""

    id: int
    name: str
    role: Role
    board: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True)
class NewToken:
    """A token that was made just now, with the secret that is told this once."""

    token: Token
    secret: str


class Tokens:
    """Access tokens.

    - A secret is `tbk_ROLE_` and 256 random bits in base64url; only its SHA-256 is stored.
    - A token is good from when it is made until it is revoked; a revoked one stays in the list.
    - Every change raises the revision `tokens` in its own transaction: whoever keeps a copy sees
      a revocation by the next look at the number.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role, board: str = "") -> NewToken:
        """Makes a token, and gives its secret this once. Raises UsageError for a name that is
        empty, too long or not one printable line, where a board is named for any other role than
        `board`, or none for that, and for a board that is not `CLASS/BOARD`."""
        _check_name(name)
        _check_board(role, board)
        random = new_secret()
        lead = f"tbk_{role.value}_"
        row = TokenRow(
            sha256=secret_hash(lead + random),
            prefix=lead + random[:_SHOWN_CHARACTERS],
            name=name,
            role=role.value,
            board=board,
        )
        with self._database.writing() as session:
            session.add(row)
            session.flush()
            made = _token(row)
            bump(session, TOKENS)
        return NewToken(made, lead + random)

    def list(self) -> tuple[Token, ...]:
        """Every token, revoked ones too, oldest first."""
        with self._database.reading() as session:
            return tuple(map(_token, session.scalars(select(TokenRow).order_by(TokenRow.id))))

    def revoke(self, token_id: int) -> Token:
        """Ends a token for good; one that was revoked before stays as it is. Raises
        NotFoundError."""
        with self._database.writing() as session:
            row = session.get(TokenRow, token_id)
            if row is None:
                raise NotFoundError(
                    f"there is no token {token_id}; `tunebook token list` shows those there are"
                )
            if row.revoked_at is None:
                row.revoked_at = now()
                session.flush()
                bump(session, TOKENS)
            return _token(row)

    def authenticate(self, secret: str) -> Token | None:
        """The token of a secret, revoked or not; None where there is none."""
        return self.find(secret_hash(secret))

    def find(self, sha256: str) -> Token | None:
        """The token whose secret has this hash, revoked or not; None where there is none."""
        with self._database.reading() as session:
            row = session.scalar(select(TokenRow).where(TokenRow.sha256 == sha256))
            return None if row is None else _token(row)


def _token(row: TokenRow) -> Token:
    return Token(
        row.id,
        row.name,
        Role(row.role),
        row.board,
        row.prefix,
        row.created_at,
        row.revoked_at,
    )


def _check_name(name: str) -> None:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"{name[:_LONGEST_NAME]!r} is no name for a token; give one printable line of at most "
            f"{_LONGEST_NAME} characters that says who uses it"
        )


def _check_board(role: Role, board: str) -> None:
    if role is Role.BOARD and not board:
        raise UsageError("a token of role board is for one board; name it: --board CLASS/BOARD")
    if role is not Role.BOARD and board:
        raise UsageError(f"--board is for tokens of role board, and not for {role.value}")
    if board:
        check_board_address(board)
