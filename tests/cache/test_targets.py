"""One canonical text for every spelling of a target that gives the same code."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from target_cases import A64, CANONICAL, DOTPROD, PI4, REFUSED

from tunebook.cache.errors import TargetError
from tunebook.cache.misses import Difference
from tunebook.cache.target_tags import TAGS
from tunebook.cache.targets import CODE_OPTIONS, DROPPED, Target, canonical_target


@pytest.mark.parametrize(("spelling", "canonical"), CANONICAL)
def test_a_spelling_has_its_canonical_text(spelling: Any, canonical: str) -> None:
    assert str(canonical_target(spelling)) == canonical


@pytest.mark.parametrize("canonical", sorted({canonical for _, canonical in CANONICAL}))
def test_a_canonical_text_is_its_own(canonical: str) -> None:
    assert str(Target.parse(canonical)) == canonical


@pytest.mark.parametrize(("spelling", "told"), REFUSED)
def test_a_wrong_target_is_told_in_one_line(spelling: Any, told: str) -> None:
    with pytest.raises(TargetError) as error:
        canonical_target(spelling)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_board_class_supplies_the_cores_that_a_target_lacks() -> None:
    assert canonical_target("arm/rk3399", num_cores=6).num_cores == 6


def test_a_target_that_names_its_cores_keeps_them() -> None:
    assert canonical_target(PI4, num_cores=2).num_cores == 4


def test_a_board_class_with_no_cores_is_refused() -> None:
    with pytest.raises(TargetError, match="num-cores"):
        canonical_target("arm/rk3399", num_cores=0)


@pytest.mark.parametrize(
    ("spelling", "completed"),
    [
        ("llvm", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"),
        ("llvm -num-cores=2", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2"),
        (
            "llvm -mtriple=arm64-unknown-linux-gnu -mattr=+dotprod",
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+dotprod -num-cores=4",
        ),
        (
            {"kind": "llvm", "mcpu": "cortex-a53"},
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4",
        ),
        # A processor is one of its architecture.
        ("llvm -mtriple=x86_64-linux-gnu", "llvm -mtriple=x86_64-linux-gnu -num-cores=4"),
        (
            "arm/rk3399",
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon -model=rk3399 "
            "-num-cores=4",
        ),
    ],
    ids=str,
)
def test_a_board_class_supplies_what_a_target_leaves_out(spelling: Any, completed: str) -> None:
    defaults = {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": "4"}
    assert str(canonical_target(spelling, defaults=defaults)) == completed


@pytest.mark.parametrize("spelling", ["llvm -mcpu=", "cuda", "llvm -mtriple=", ""])
def test_what_is_wrong_in_a_target_no_board_class_mends(spelling: str) -> None:
    defaults = {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": "4"}
    with pytest.raises(TargetError):
        canonical_target(spelling, defaults=defaults)


def test_equal_targets_do_not_differ() -> None:
    assert Target.parse(PI4).differences(Target.parse(PI4)) == ()


def test_targets_differ_by_attribute() -> None:
    wanted = Target.parse(f"llvm {A64} -mcpu=cortex-a76 -fast-math=1 -num-cores=4")
    nearest = Target.parse("llvm -mtriple=x86_64-linux-gnu -mattr=+avx2 -num-cores=2")
    assert wanted.differences(nearest) == (
        Difference("target.mtriple", "aarch64-linux-gnu", "x86_64-linux-gnu"),
        Difference("target.mcpu", "cortex-a76", None),
        Difference("target.fast-math", 1, None),
        Difference("target.num-cores", 4, 2),
        Difference("target.mattr", [], ["+avx2"]),
    )


def test_a_target_is_taken_apart_as_written() -> None:
    assert Target.parse(DOTPROD) == Target(
        kind="llvm",
        mtriple="aarch64-linux-gnu",
        mcpu=None,
        mattr=("+dotprod", "+neon"),
        options=(),
        model=None,
        num_cores=4,
    )


FEATURES = st.dictionaries(
    st.sampled_from(["neon", "dotprod", "sve", "i8mm"]), st.sampled_from("+-")
)
OPTIONS = st.fixed_dictionaries(
    {
        "mtriple": st.sampled_from(
            ["aarch64-linux-gnu", "arm64-unknown-linux-gnu", "x86_64-pc-linux-gnu"]
        ),
        "num-cores": st.integers(1, 128).map(str),
    },
    optional={
        "mcpu": st.sampled_from(["cortex-a72", "cortex-a76"]),
        "model": st.sampled_from(["rk3399", "bcm2711"]),
        "opt-level": st.integers(0, 3).map(str),
        "fast-math": st.sampled_from(["0", "1", "true", "false"]),
        "vector-width": st.sampled_from(["128", "256"]),
        "keys": st.just("arm_cpu,cpu"),
        "link-params": st.just("0"),
    },
)


@given(OPTIONS, FEATURES, st.randoms(use_true_random=False))
def test_no_order_and_no_repetition_changes_the_canonical_text(
    options: dict[str, str], features: dict[str, str], chance: random.Random
) -> None:
    signed = [sign + name for name, sign in features.items()]
    given_options = {**options, **({"mattr": ",".join(signed)} if signed else {})}
    shuffled_features = signed * 2
    chance.shuffle(shuffled_features)
    shuffled = list(
        {**given_options, **({"mattr": ",".join(shuffled_features)} if signed else {})}.items()
    )
    chance.shuffle(shuffled)
    line = "llvm " + " ".join(f"-{name}={value}" for name, value in given_options.items())
    other = "llvm " + " ".join(f"-{name}={value}" for name, value in shuffled)
    canonical = str(canonical_target(line))
    assert str(canonical_target(other)) == canonical
    assert str(canonical_target({"kind": "llvm", **dict(shuffled)})) == canonical
    assert str(canonical_target(canonical)) == canonical


Options = dict[str, str]
Features = dict[str, str]
Parts = tuple[Options, Features]


def meaning(options: Options, features: Features) -> tuple[object, ...]:
    """What a target may generate, whatever its spelling, put together without our own parser."""
    flag = options.get("fast-math", "0") in ("1", "true")
    return (
        options["mtriple"].split("-")[0].replace("arm64", "aarch64"),
        features,
        flag,
        *(options.get(name) for name in ("mcpu", "model", "opt-level", "vector-width")),
        options["num-cores"],
    )


def changed(draw: st.DrawFn, options: Options) -> Options:
    """Another target, or the same one, one option away."""
    name = draw(st.sampled_from(sorted({"mcpu", "model", "opt-level", "fast-math", *options})))
    other = draw(OPTIONS)
    rest = {key: value for key, value in options.items() if key != name}
    return {**rest, name: other[name]} if name in other else rest


@st.composite
def two_targets(draw: st.DrawFn) -> tuple[Parts, Parts]:
    """Two targets, near each other."""
    options, features = draw(OPTIONS), draw(FEATURES)
    if draw(st.booleans()):
        return (options, features), (options, draw(FEATURES))
    return (options, features), (changed(draw, options), features)


def spelled(data: st.DataObject, options: Options, features: Features) -> str | dict[str, Any]:
    """One of the many spellings of a target."""
    signed = data.draw(st.permutations([sign + name for name, sign in features.items()]))
    pairs = list(options.items()) + ([("mattr", ",".join(signed))] if signed else [])
    shuffled = data.draw(st.permutations(pairs))
    form = data.draw(st.sampled_from(["line", "json", "dict"]))
    if form == "dict":
        return {"kind": "llvm", **dict(shuffled)}
    if form == "json":
        indent = data.draw(st.sampled_from([None, 0, 4]))
        listed = {**dict(shuffled), **({"mattr": signed} if signed else {})}
        return json.dumps({"kind": "llvm", **listed}, indent=indent)
    spaces = st.sampled_from([" ", "  ", "\t", "\n"])
    words = ["llvm"]
    for name, value in shuffled:
        # A value that starts with a sign would be an option of its own.
        joined = "=" if value[0] == "-" else data.draw(st.sampled_from(["=", " "]))
        words.append(f"{data.draw(st.sampled_from(['-', '--']))}{name}{joined}{value}")
    return data.draw(spaces).join(words)


@given(two_targets(), st.data())
def test_targets_meet_only_where_they_may_generate_the_same(
    two: tuple[Parts, Parts], data: st.DataObject
) -> None:
    one, other = (str(canonical_target(spelled(data, *target))) for target in two)
    assert (one == other) == (meaning(*two[0]) == meaning(*two[1]))
    assert str(canonical_target(one)) == one


@given(st.text(max_size=80) | st.text(alphabet="llvm -=mcputriple{}[]\"',+0", max_size=80))
def test_any_text_is_a_target_or_told_to_be_none(text: str) -> None:
    try:
        canonical = str(canonical_target(text))
    except TargetError as error:
        assert "\n" not in str(error)
    else:
        assert str(canonical_target(canonical)) == canonical


def test_the_tags_are_those_of_tvm() -> None:
    target_module = pytest.importorskip("tvm.target", reason="needs TVM")
    theirs = {
        name: dict(target.export())
        for name, target in target_module.list_tags().items()
        if name.startswith(("arm/", "raspberry-pi/")) and str(target.kind) == "llvm"
    }
    assert set(TAGS) == set(theirs)
    for name, exported in theirs.items():
        exported["mattr"] = [str(feature) for feature in exported["mattr"]]
        exported["host"] = None
        assert canonical_target(exported, num_cores=4) == canonical_target(name, num_cores=4), name


def test_every_option_of_tvm_is_kept_or_dropped_on_purpose() -> None:
    tvm = pytest.importorskip("tvm", reason="needs TVM")
    options = set(map(str, tvm.get_global_func("target.ListTargetKindOptionsFromName")("llvm")))
    decided = {"kind", "mtriple", "mcpu", "mattr", "model", "num-cores"} | CODE_OPTIONS | DROPPED
    assert options <= decided
