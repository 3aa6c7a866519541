"""Submitted jobs in a schema that has none: what becomes of them, and of their budgets.

In plain SQL on the columns of schema 0003, since models of tables change.
"""

from __future__ import annotations

from sqlalchemy import Connection, DateTime, Row, bindparam, text

from tunebook.cache.storage.moments import now

_CHARGED = "(SELECT count(*) FROM slots WHERE slots.round_id = rounds.id AND slots.charged)"
_ENDED = "SELECT id FROM jobs WHERE submitted AND state = 'open'"
_GIVE_BACK = f"""
    UPDATE budgets SET granted = granted - COALESCE((
        SELECT sum(COALESCE(rounds.granted, 0) - {_CHARGED})
        FROM rounds JOIN jobs ON jobs.id = rounds.job_id
        WHERE jobs.budget_id = budgets.id AND jobs.submitted AND jobs.state = 'open'
          AND rounds.state = 'open'
    ), 0)
"""
_CLOSE_ROUNDS = f"""
    UPDATE rounds SET granted = {_CHARGED}, state = 'closed', worker = NULL, holder = NULL,
        epoch = epoch + 1, finished_at = :moment
    WHERE state = 'open' AND job_id IN ({_ENDED})
"""
_CANCEL = """
    UPDATE jobs SET state = 'cancelled', reason = 'the schema was rolled back',
        finished_at = :moment
    WHERE submitted AND state = 'open'
"""
# The models whose submitted jobs have used trials, or at least refer to a budget, with how many.
_USES = """
    SELECT models.digest, models.shapes, models.target_id, models.compiler,
        (SELECT count(*) FROM slots JOIN rounds ON rounds.id = slots.round_id
         JOIN jobs AS own ON own.id = rounds.job_id
         JOIN budgets AS theirs ON theirs.id = own.budget_id AND theirs.digest IS NULL
         JOIN models AS same ON same.id = own.model_id
         WHERE slots.charged AND same.digest = models.digest AND same.shapes = models.shapes
           AND same.target_id = models.target_id AND same.compiler = models.compiler) AS spent
    FROM jobs
    JOIN budgets ON budgets.id = jobs.budget_id AND budgets.digest IS NULL
    JOIN models ON models.id = jobs.model_id
    GROUP BY models.digest, models.shapes, models.target_id, models.compiler
"""
_IDENTITY = """
    digest = :digest AND shapes = :shapes AND target_id = :target_id AND compiler = :compiler
"""
_FIND_BUDGET = f"SELECT id FROM budgets WHERE {_IDENTITY}"
_NEW_BUDGET = """
    INSERT INTO budgets (digest, shapes, target_id, compiler, trial_limit, granted, spent,
        board_seconds)
    VALUES (:digest, :shapes, :target_id, :compiler, 0, 0, 0, 0)
"""
_ADD_TRIALS = f"""
    UPDATE budgets SET trial_limit = trial_limit + :spent, granted = granted + :spent,
        spent = spent + :spent
    WHERE {_IDENTITY}
"""
_MOVE_JOBS = f"""
    UPDATE jobs SET budget_id = (SELECT id FROM budgets WHERE {_IDENTITY})
    WHERE budget_id IN (SELECT id FROM budgets WHERE digest IS NULL)
      AND model_id IN (SELECT id FROM models WHERE {_IDENTITY})
"""


def end_submitted_jobs(connection: Connection) -> None:
    """Leaves nothing that schema 0002 cannot hold.

    Open submitted jobs are cancelled, and what they had not spent goes back; those that were never
    split go. The others draw on their models' own budgets, to which their trials are added, so that
    of these as much is left as before.
    """
    moment = now()
    connection.execute(text(_GIVE_BACK))
    for statement in (_CLOSE_ROUNDS, _CANCEL):
        timed = text(statement).bindparams(bindparam("moment", type_=DateTime(timezone=True)))
        connection.execute(timed, {"moment": moment})
    connection.execute(text("DELETE FROM jobs WHERE model_id IS NULL"))
    for use in connection.execute(text(_USES)).all():
        _move(connection, use)
    connection.execute(text("DELETE FROM budgets WHERE digest IS NULL"))


def _move(connection: Connection, use: Row[tuple[str, str, int, str, int]]) -> None:
    identity = {
        "digest": use.digest,
        "shapes": use.shapes,
        "target_id": use.target_id,
        "compiler": use.compiler,
    }
    if connection.execute(text(_FIND_BUDGET), identity).first() is None:
        connection.execute(text(_NEW_BUDGET), identity)
    connection.execute(text(_ADD_TRIALS), {**identity, "spent": use.spent})
    connection.execute(text(_MOVE_JOBS), identity)
