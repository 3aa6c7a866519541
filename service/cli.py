"""The command line: parses, calls, and turns every error into one line and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

import typer

from tunebook.cache.errors import ExitCode, TunebookError
from tunebook.cache.misses import ScheduleMissError
from tunebook.service.commands import (
    board_command,
    boards_command,
    build_command,
    check_command,
    database_command,
    demo_command,
    export_command,
    import_command,
    key_command,
    lookup_command,
    migrate_command,
    nightly_command,
    plan_command,
    serve_command,
    submit_command,
    target_command,
    token_command,
    tracker_command,
    tune_command,
    worker_command,
)
from tunebook.service.output import print_error, print_misses

_TRACEBACK = "TUNEBOOK_TRACEBACK"
_SERVING = frozenset(
    {"fastapi", "starlette", "uvicorn", "jinja2", "fsspec", "prometheus_client", "multipart"}
)

app = typer.Typer(
    name="tunebook",
    help="Tunes a model's kernels once, keeps the schedules, and serves them to every build.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("tune")(tune_command.tune)
app.command("build")(build_command.build)
app.command("lookup")(lookup_command.lookup)
app.command("migrate")(migrate_command.migrate)
app.command("key")(key_command.key)
app.command("target")(target_command.target)
app.command("import")(import_command.import_database)
app.command("export")(export_command.export_database)
app.command("check")(check_command.check)
app.command("plan")(plan_command.plan)
app.command("nightly")(nightly_command.nightly)
app.command("submit")(submit_command.submit)
app.command("serve")(serve_command.serve)
app.command("worker")(worker_command.worker)
app.command("board")(board_command.board)
app.command("tracker")(tracker_command.tracker)
app.command("demo")(demo_command.demo)
app.add_typer(boards_command.app, name="boards")
app.add_typer(database_command.app, name="db")
app.add_typer(token_command.app, name="token")


def main() -> None:
    """Runs the command line and exits with its code (docs/operations.md lists them)."""
    # A service manager's stop ends a run as Ctrl-C does: boards and folders are given back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Native code is silenced by closing its stderr for a while (tvm_compat); ours stays open.
    if sys.stderr is not None:
        copy = os.dup(sys.stderr.fileno())
        sys.stderr = os.fdopen(copy, "w", buffering=1, errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and gives its exit code; an error is one line on stderr."""
    try:
        code = app(args=list(arguments), prog_name="tunebook", standalone_mode=False)
    except typer.TyperException as error:
        print_error(error.format_message())
        return ExitCode.USAGE
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except ScheduleMissError as error:
        print_error(str(error))
        print_misses(error.misses)
        return error.exit_code
    except TunebookError as error:
        print_error(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or str(error)).partition(".")[0]
        print_error(
            f"the module {package} is not installed, which this command needs; "
            f'run: pip install "tunebook[{_extra_of(package)}]"'
        )
        return ExitCode.INCOMPATIBLE
    except OSError as error:
        print_error(_system_error(error))
        return ExitCode.FAILURE
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        print_error(
            f"unexpected {type(error).__name__}: {error}; this is a fault of Tunebook: report it "
            f"with what the command prints under {_TRACEBACK}=1"
        )
        return ExitCode.FAILURE
    # Typer itself makes a code of an interruption.
    if code == ExitCode.INTERRUPTED:
        print_error("stopped; what was measured is stored, run the same command to go on")
    return int(code or ExitCode.OK)


def _extra_of(package: str) -> str:
    """The extra that brings a package along."""
    return "serve" if package in _SERVING else "tune"


def _system_error(error: OSError) -> str:
    """A fault of this machine that nobody expected: which file, and what the system says."""
    where = f"{error.filename}: " if error.filename else ""
    said = error.strerror or str(error) or type(error).__name__
    return f"{where}{said}; check that the place can be written and has room, then run it again"


if __name__ == "__main__":
    main()
