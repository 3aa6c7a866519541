"""Transactions that meet on a server lock in one order (SQLite has one writer at a time)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from cache_samples import (
    A76,
    TRACE,
    candidates,
    claim_new_round,
    conv,
    measure,
    model_of,
    propose_all,
    start_job,
)
from drift_contract import FIRST, by, learn, refer, suspect_names
from queue_samples import claim_new_searched, submit, submit_searched
from sqlalchemy import Connection, create_engine, text

from tunebook.cache.queue.submissions import JobState
from tunebook.cache.records import Source
from tunebook.cache.storage.database import parse_url
from tunebook.cache.store import RoundProposal, Store
from tunebook.cache.stored.imported_records import ImportedRecord

pytestmark = pytest.mark.postgresql
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
_PATIENCE_SECONDS = 60
_COPIED = """
    workload_id, target_id, emulated, verified, error_text, board, board_class, board_seconds,
    board_state, run_seconds, created_at, feature_columns, trace
"""
_STORE_MODULE = f"""
    INSERT INTO records ({_COPIED}, module_hash, source, suspect)
    SELECT {_COPIED}, 'module', 'search', false FROM records
"""

_ADDED = """
    model_id, budget_id, emulated, state, reason, created_at, submitted, digest, shapes, target,
    choices, name, priority, stage, log, epoch, beat, lost_workers
"""
_ADD_JOB = f"""
    INSERT INTO jobs ({_ADDED}, board_class) SELECT {_ADDED}, 'a third' FROM jobs
"""


def test_a_job_that_is_resumed_while_another_finishes_it_is_made_anew(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = start_job(store)
        with engine.begin() as finishing:
            # The steps of finish_job, with time between them.
            finishing.execute(text("UPDATE jobs SET state = 'done'"))
            resumed = thread.submit(start_job, store)
            _wait_for_somebody_waiting(finishing)
            finishing.execute(text("UPDATE budgets SET granted = granted"))
        assert resumed.result() != job
    engine.dispose()


def test_a_round_that_is_proposed_while_another_finishes_the_job_is_left_out(
    postgresql_url: str,
) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = start_job(store)
        with engine.begin() as finishing:
            finishing.execute(text("UPDATE jobs SET state = 'done'"))
            proposed = thread.submit(propose_all, store, job, 4)
            _wait_for_somebody_waiting(finishing)
        assert proposed.result() == 0
    engine.dispose()


def test_a_trace_is_named_after_a_module_whose_record_is_stored_meanwhile(
    postgresql_url: str,
) -> None:
    engine = create_engine(parse_url(postgresql_url))
    record = ImportedRecord(conv().key.on(A76), TRACE, (1e-3,))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        store.interchange.import_workloads([conv()])
        store.interchange.import_records([record])
        with engine.begin() as measuring:
            measuring.execute(text(_STORE_MODULE))
            named = replace(record, module_hash="module")
            imported = thread.submit(store.interchange.import_records, [named])
            _wait_for_somebody_waiting(measuring)
        assert imported.result() == 0
        (stored,) = store.records(record.key)
        assert stored.candidate.source is Source.SEARCH
    engine.dispose()


def test_a_round_is_finished_while_another_cancels_its_job(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = submit_searched(store)
        claimed = claim_new_searched(store, job)
        with engine.begin() as cancelling:
            # The steps of cancelling: the job, its rounds, the budget, the event.
            cancelling.execute(text("UPDATE jobs SET state = 'cancelled'"))
            store.finish_round(claimed.id, claimed.epoch)
            cancelled = thread.submit(store.queue.cancel, job)
            _wait_for_somebody_waiting(cancelling)
            cancelling.execute(text("SELECT * FROM rounds FOR UPDATE"))
            cancelling.execute(text("UPDATE budgets SET granted = granted"))
            cancelling.execute(text("UPDATE job_event_heads SET last = last"))
        assert cancelled.result().state is JobState.CANCELLED
    engine.dispose()


def test_runs_of_one_model_on_two_board_classes_begin_at_once(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = start_job(store)
        model = store.save_model(model_of([conv()]))
        with engine.begin() as beginning:
            # The first step of submit_job; its next is to lock the budget, as the other run does.
            beginning.execute(text(_ADD_JOB))
            submitted = thread.submit(
                store.submit_job, model, "another", trials=None, more=None, emulated=False
            )
            other = submitted.result(_PATIENCE_SECONDS)
            beginning.execute(text("SELECT * FROM budgets FOR NO KEY UPDATE"))
        assert store.budget(other) == store.budget(job)
    engine.dispose()


def test_a_claim_holds_no_budget_while_it_waits_for_another(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        spent, other = start_job(store, conv(56), trials=0), start_job(store, conv(28))
        (first,), (second,) = (store.task_states(job) for job in (spent, other))
        store.propose_rounds(spent, [RoundProposal(first.id, 4, 2.0)])
        store.propose_rounds(other, [RoundProposal(second.id, 4, 1.0)])
        budgets = [store.budget(job).id for job in (spent, other)]
        lock = text("SELECT * FROM budgets WHERE id = :id FOR UPDATE NOWAIT")
        with engine.begin() as working:
            working.execute(lock, {"id": budgets[1]})
            claimed = thread.submit(store.claim_round, "worker")
            _wait_for_somebody_waiting(working)
            working.execute(lock, {"id": budgets[0]})
        found = claimed.result()
        assert found is not None
        assert found.job_id == other
    engine.dispose()


def test_a_job_joins_a_budget_while_trials_are_reserved_of_it(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = submit_searched(store)
        propose_all(store, job, 4)
        with engine.begin() as claiming:
            claiming.execute(text("SELECT * FROM rounds FOR UPDATE"))
            claiming.execute(text("SELECT * FROM budgets FOR NO KEY UPDATE"))
            joined = thread.submit(submit, store)
            _wait_for_somebody_waiting(claiming)
            claiming.execute(text("UPDATE job_event_heads SET last = last"))
        assert store.queue.job(joined.result()).budget == store.queue.job(job).budget
    engine.dispose()


def test_a_result_that_arrives_while_its_board_is_judged_is_judged_with_it(
    postgresql_url: str,
) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        learn(store)
        claimed = claim_new_round(store, start_job(store), size=1)
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        result = by(FIRST, 1e-3)
        with engine.begin() as judging:
            # The steps of note_reference: the board, the workloads, the records.
            judging.execute(text("UPDATE boards SET quarantine = 'it drifted'"))
            stored = thread.submit(
                store.store_result, claimed.id, claimed.epoch, slot.number, result
            )
            _wait_for_somebody_waiting(judging)
            judging.execute(text("SELECT * FROM workloads FOR UPDATE"))
            judging.execute(text("UPDATE records SET suspect = true"))
        assert store.record(stored.result().record_id).suspect
    engine.dispose()


def test_a_board_is_judged_with_a_result_that_is_just_being_stored(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        learn(store)
        measure(store, conv(), {"before": by(FIRST, 1e-3)})
        refer(store, 1.0, 2.0)
        with engine.begin() as storing:
            # The steps of store_result: how the board stands, the record.
            storing.execute(text("SELECT * FROM boards FOR SHARE"))
            judged = thread.submit(refer, store, 2.0)
            _wait_for_somebody_waiting(storing)
            storing.execute(text(_STORE_MODULE))
        assert judged.result() != ""
        assert suspect_names(store) == {"module"}
    engine.dispose()


def test_a_board_is_judged_while_a_record_of_it_is_verified(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        refer(store, 2.0)
        with engine.begin() as verifying:
            # The steps of mark_verified: the workload, the record, what is served.
            verifying.execute(text("SELECT * FROM workloads FOR UPDATE"))
            judged = thread.submit(refer, store, 2.0)
            _wait_for_somebody_waiting(verifying)
            verifying.execute(text("UPDATE records SET verified = true"))
        assert judged.result() != ""
    engine.dispose()


def _wait_for_somebody_waiting(connection: Connection) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not connection.execute(text(_WAITING)).scalar_one():
        assert time.monotonic() < deadline, "nobody waits for the lock"
        time.sleep(0.01)
