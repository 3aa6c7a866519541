"""LLVM's names of processors, by what a board's system says of them."""

from __future__ import annotations

from collections.abc import Collection

# Arm's registers MIDR_EL1: (implementer, part). Those of Qualcomm that are Arm's own cores in
# another dress have Arm's names.
_AARCH64 = {
    (0x41, 0xD02): "cortex-a34",
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD04): "cortex-a35",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD06): "cortex-a65",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD0E): "cortex-a76ae",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78ae",
    (0x41, 0xD43): "cortex-a65ae",
    (0x41, 0xD44): "cortex-x1",
    (0x41, 0xD46): "cortex-a510",
    (0x41, 0xD47): "cortex-a710",
    (0x41, 0xD48): "cortex-x2",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4A): "neoverse-e1",
    (0x41, 0xD4B): "cortex-a78c",
    (0x41, 0xD4C): "cortex-x1c",
    (0x41, 0xD4D): "cortex-a715",
    (0x41, 0xD4E): "cortex-x3",
    (0x41, 0xD4F): "neoverse-v2",
    (0x41, 0xD80): "cortex-a520",
    (0x41, 0xD81): "cortex-a720",
    (0x41, 0xD82): "cortex-x4",
    (0x41, 0xD84): "neoverse-v3",
    (0x41, 0xD85): "cortex-x925",
    (0x41, 0xD87): "cortex-a725",
    (0x41, 0xD8E): "neoverse-n3",
    (0x41, 0xD8F): "cortex-a320",
    (0x46, 0x001): "a64fx",
    (0x48, 0xD01): "tsv110",
    (0x4E, 0x004): "carmel",
    (0x51, 0x001): "oryon-1",
    (0x51, 0x800): "cortex-a73",
    (0x51, 0x801): "cortex-a53",
    (0x51, 0x802): "cortex-a75",
    (0x51, 0x803): "cortex-a55",
    (0x51, 0x804): "cortex-a76",
    (0x51, 0x805): "cortex-a55",
    (0x51, 0xC00): "falkor",
    (0x51, 0xC01): "saphira",
    (0xC0, 0xAC3): "ampere1",
    (0xC0, 0xAC4): "ampere1a",
    (0xC0, 0xAC5): "ampere1b",
}
# The levels of x86-64's own ABI document, by what each has beyond the one before.
_X86_64 = (
    ("x86-64-v2", frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})),
    ("x86-64-v3", frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})),
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
)


def aarch64_cpu(implementer: int, part: int) -> str:
    """LLVM's name of a core; empty for one that is not listed."""
    return _AARCH64.get((implementer, part), "")


def x86_64_cpu(features: Collection[str]) -> str:
    """LLVM's name of the highest level of x86-64 whose features, by LLVM's names, are all there:
    what code for the whole class can be made for, whichever processors it has."""
    found = "x86-64"
    for name, needed in _X86_64:
        if not needed <= set(features):
            break
        found = name
    return found
