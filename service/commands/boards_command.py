"""`tunebook boards`: how the boards are, and what completes the targets of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated
from urllib.parse import quote

import typer
from rich.table import Table
from rich.text import Text

from tunebook.cache.board_names import check_board_address, is_class_name
from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.boards.boards import Boards
from tunebook.cache.errors import UsageError
from tunebook.service.board_documents import (
    BoardClassDocument,
    BoardClasses,
    BoardDocument,
    ClassDefaultsDocument,
    board_classes,
)
from tunebook.service.board_texts import BOARD_COLUMNS, class_line, note
from tunebook.service.commands.completed_target import asked_boards
from tunebook.service.commands.options import (
    AsJson,
    DatabaseUrl,
    Server,
    chosen_server,
    open_store,
)
from tunebook.service.output import print_json, print_table, print_text, printable

BoardAddress = Annotated[
    str, typer.Argument(metavar="CLASS/BOARD", help="The board, as rpi4b/rpi4b-1.")
]

app = typer.Typer(
    help="Show the boards: which are there, how they are, and which measure well.",
    invoke_without_command=True,
)


@app.callback()
def boards(
    context: typer.Context, server: Server = None, db: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Show every board that an agent reports or a worker has: its state, how it is, what its
    reference kernel takes, and how many of its records are suspect."""
    if context.invoked_subcommand is not None:
        return
    known = _known(db, server)
    if as_json:
        print_json(known)
        return
    rows = [(one, board) for one in known.items for board in one.boards]
    if rows:
        print_table(_table(rows))
    else:
        print_text("No board is known; `tunebook board` on one makes it report.")
    for line in _lines(known):
        print_text(printable(line))


@app.command("set-class")
def set_class(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class of boards.")],
    num_cores: Annotated[
        int | None, typer.Option("--num-cores", metavar="N", help="Their cores.")
    ] = None,
    mtriple: Annotated[
        str | None, typer.Option("--mtriple", metavar="T", help="As aarch64-linux-gnu.")
    ] = None,
    mcpu: Annotated[
        str | None, typer.Option("--mcpu", metavar="C", help="As cortex-a72, by LLVM's name.")
    ] = None,
    server: Server = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Set what completes targets that name a class of boards; what is not given stays as it is.

    The first board of a class that reports sets it by itself. A coordinator wants the role admin.
    """
    if not is_class_name(name):
        raise UsageError(f"{name[:100]!r} is no name of a board class; it looks like rpi4b")
    given = {"num_cores": num_cores, "mtriple": mtriple, "mcpu": mcpu}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise UsageError("nothing is to be set; give --num-cores, --mtriple or --mcpu")
    stored = _set(name, changes, db, server)
    if as_json:
        print_json(ClassDefaultsDocument(**vars(stored)))
    else:
        print_text(class_line(name, stored))


@app.command("new-baseline")
def new_baseline(address: BoardAddress, server: Server = None, db: DatabaseUrl = None) -> None:
    """Begin a board's baseline anew, and end its quarantine: it is another board from now on.

    For one with a new cooler, governor or supply: what its reference kernel took before is
    forgotten. A coordinator wants the role admin.
    """
    _change_board(address, Boards.begin_baseline, "/baseline", db, server)
    print_text(f"{address} is judged by what it measures from now on.")


@app.command("forget")
def forget(address: BoardAddress, server: Server = None, db: DatabaseUrl = None) -> None:
    """Forget a board that is gone, with its baseline and quarantine. Its records stay as they are.

    Stop its `tunebook board` first: a board that is heard of again is a new one. A coordinator
    wants the role admin.
    """
    _change_board(address, Boards.forget, "", db, server)
    print_text(f"{address} is forgotten; its records stay.")


def _change_board(
    address: str,
    change: Callable[[Boards, str, str], None],
    path: str,
    db: str | None,
    server: str | None,
) -> None:
    """Changes a board in the database, or by `DELETE` of the path below its own."""
    check_board_address(address)
    board_class, _, name = address.partition("/")
    asked = chosen_server(db, server)
    if asked is None:
        with open_store(db) as store:
            change(store.boards, board_class, name)
        return
    # Only here: `tunebook --help` should not wait for a client of HTTP.
    from tunebook.cache.remote.client import Client

    with Client(asked) as client:
        client.request("DELETE", f"/boards/{quote(board_class)}/{quote(name)}{path}")


def _known(db: str | None, server: str | None) -> BoardClasses:
    asked = chosen_server(db, server)
    if asked is not None:
        return asked_boards(asked)
    with open_store(db, read_only=True) as store:
        return board_classes(store)


def _set(
    name: str, changes: dict[str, int | str], db: str | None, server: str | None
) -> ClassDefaults:
    asked = chosen_server(db, server)
    if asked is None:
        with open_store(db) as store:
            return store.boards.set_defaults(
                name, _changed(name, store.boards.defaults(name), changes)
            )
    # Only here: `tunebook --help` should not wait for a client of HTTP.
    from tunebook.cache.remote.client import Client

    wanted = _changed(name, asked_boards(asked).defaults_of(name), changes)
    with Client(asked) as client:
        stored = client.read_document(
            ClassDefaultsDocument, "PUT", f"/board-classes/{name}", vars(wanted)
        )
    return ClassDefaults(**stored.model_dump())


def _changed(
    name: str, before: ClassDefaults | None, changes: dict[str, int | str]
) -> ClassDefaults:
    """Raises UsageError for a class of which too little is known."""
    merged = {**({} if before is None else vars(before)), **changes}
    lacking = {"num_cores", "mtriple"} - merged.keys()
    if lacking:
        options = " and ".join(f"--{one.replace('_', '-')}" for one in sorted(lacking))
        raise UsageError(f"the board class {name} has no defaults yet; give {options} too")
    after = ClassDefaults(**merged)
    if before is not None and before.mcpu and "mcpu" not in changes:
        _check_same_architecture(before, after)
    return after


def _check_same_architecture(before: ClassDefaults, after: ClassDefaults) -> None:
    """Raises UsageError where a processor would stay that the other triple cannot have."""
    if before.target.architecture != after.target.architecture:
        raise UsageError(
            f"-mcpu={before.mcpu} is a processor of {before.mtriple}; give --mcpu too, empty for "
            "none"
        )


def _table(rows: list[tuple[BoardClassDocument, BoardDocument]]) -> Table:
    """All columns in which any board has something to tell."""
    table = Table()
    told = [column for column in BOARD_COLUMNS if any(column.show(*row) for row in rows)]
    for column in told:
        table.add_column(
            column.title, justify="right" if column.is_number else "left", overflow="fold"
        )
    for row in rows:
        # As text: in a plain string Rich would follow what looks like its markup.
        table.add_row(*(Text(printable(column.show(*row))) for column in told))
    return table


def _lines(known: BoardClasses) -> Iterator[str]:
    """What no cell has room for: reasons, and what completes targets."""
    for one in known.items:
        for board in one.boards:
            told = note(board)
            if told:
                yield f"{one.board_class}/{board.board} {told}"
    for one in known.items:
        defaults = one.class_defaults()
        if defaults is not None:
            yield class_line(one.board_class, defaults)
