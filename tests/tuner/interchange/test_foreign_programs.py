"""Programs and traces from outside: described without their model, answered one by one."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator

import pytest
import tvm
from near_programs import A76, matmul, random_traces
from process_looks import children_that_run

from tunebook.cache.errors import ModelError, UntrustedProgramError
from tunebook.cache.records import Workload
from tunebook.cache.targets import Target
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.interchange.foreign_programs import (
    ForeignPrograms,
    LoadProgram,
    Refused,
    Replayed,
    ReplayTrace,
    Script,
    ShowScheduled,
)
from tunebook.tuner.interchange.foreign_workload import foreign_workload
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split
from tunebook.tuner.traces.replay import replay


@pytest.mark.parametrize(
    "name", ["two_strides", "quantised", "gather", "convolution_after_others", "integer_dense"]
)
def test_a_program_gets_the_key_that_splitting_its_model_gives(
    name: str, read: Callable[..., ImportedModel], host: Target
) -> None:
    workloads = [task.workload for task in split(prepare(read(name), host))]
    found = [foreign_workload(workload.tir) for workload in workloads]
    assert [one.key for one in found] == [workload.key for workload in workloads]
    assert [one.likeness.structure for one in found] == [
        workload.likeness.structure for workload in workloads
    ]


def test_a_module_of_other_functions_is_no_workload() -> None:
    module = tvm.IRModule({"other": tvm.ir.load_json(matmul(4, 4, 4))["main"]})
    with pytest.raises(UntrustedProgramError, match="it has the attribute 'other', which is not"):
        foreign_workload(tvm.ir.save_json(module))


def test_a_module_of_no_function_is_no_workload() -> None:
    with pytest.raises(ModelError, match="its functions are none, not main alone"):
        foreign_workload(tvm.ir.save_json(tvm.IRModule()))


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignPrograms]:
    with ForeignPrograms(processes=2) as programs:
        yield programs


class TestProcesses:
    def test_answers_come_in_the_order_of_the_messages(self, foreign: ForeignPrograms) -> None:
        sizes = [4, 8, 12, 16, 20, 24]
        messages = [LoadProgram(matmul(size, 4, 4)) for size in sizes]
        answers = list(foreign.answers(messages))
        assert all(isinstance(one, Workload) for one in answers)
        assert [one.key.buffers.split()[0] for one in answers if isinstance(one, Workload)] == [
            f"f32[{size},4]" for size in sizes
        ]

    def test_few_messages_are_taken_ahead(self, foreign: ForeignPrograms) -> None:
        taken = 0

        def messages() -> Iterator[LoadProgram]:
            nonlocal taken
            for _ in range(1000):
                taken += 1
                yield LoadProgram("")

        answers = foreign.answers(messages())
        next(answers)
        assert taken < 20
        answers.close()  # type: ignore[attr-defined]

    def test_what_fails_is_answered_with_the_reason(self, foreign: ForeignPrograms) -> None:
        tir = matmul(16, 16, 16)
        (trace,) = random_traces(tir, A76, 1)
        evil = '[[["Annotate", ["b0", "x"], ["pragma_import_c"], []]], []]'
        replayed, unfit, refused, unread = foreign.answers(
            [
                ReplayTrace(tir, trace),
                ReplayTrace(tir, '[[["GetLoops", ["b0"], [], ["l1"]]], []]'),
                ReplayTrace(tir, evil),
                LoadProgram("{}"),
            ]
        )
        assert isinstance(replayed, Replayed)
        assert isinstance(unfit, Refused)
        assert not unfit.untrusted
        assert isinstance(refused, Refused)
        assert refused.untrusted
        assert "pragma_import_c" in refused.reason
        assert unread == Refused("the program is refused: it is not JSON of a program", True)

    def test_a_scheduled_program_is_shown_as_tvm_writes_it(self, foreign: ForeignPrograms) -> None:
        tir = matmul(16, 16, 16)
        (trace,) = random_traces(tir, A76, 1)
        (shown,) = foreign.answers([ShowScheduled(tir, trace)])
        assert isinstance(shown, Script)
        unscheduled = tvm.ir.load_json(tir).script()
        assert shown.text == replay(tvm.ir.load_json(tir), trace).mod.script() != unscheduled

    def test_a_process_may_not_take_all_memory(
        self, foreign: ForeignPrograms, eventually: Callable[..., None]
    ) -> None:
        list(foreign.answers([LoadProgram("{}"), LoadProgram("{}")]))

        def are_limited() -> bool:
            loading = children_that_run("tunebook.tuner.interchange.loading_process")
            limits = [resource.prlimit(one.pid, resource.RLIMIT_DATA)[0] for one in loading]
            # One that is still starting has none yet.
            return bool(limits) and all(0 < limit <= 4 * 2**30 for limit in limits)

        eventually(are_limited, "each has a limit")
