"""What a processor can run, by LLVM's names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from tunebook.workers.boards.server.machine import machine
from tunebook.workers.boards.server.system_files import text_of

AT_HWCAP, AT_HWCAP2 = 16, 26
# CPU features by LLVM's names, and the bits by which Linux tells them in AT_HWCAP and AT_HWCAP2
# (its arch/arm64/include/uapi/asm/hwcap.h); LLVM's may need several.
AARCH64_FEATURES: Mapping[str, tuple[int, int]] = {
    "fp-armv8": (1 << 0, 0),
    "neon": (1 << 1, 0),
    "aes": (1 << 3 | 1 << 4, 0),
    "sha2": (1 << 5 | 1 << 6, 0),
    "crc": (1 << 7, 0),
    "lse": (1 << 8, 0),
    "fullfp16": (1 << 9 | 1 << 10, 0),
    "rdm": (1 << 12, 0),
    "jsconv": (1 << 13, 0),
    "complxnum": (1 << 14, 0),
    "rcpc": (1 << 15, 0),
    "ccpp": (1 << 16, 0),
    "sha3": (1 << 17 | 1 << 21, 0),
    "sm4": (1 << 18 | 1 << 19, 0),
    "dotprod": (1 << 20, 0),
    "sve": (1 << 22, 0),
    "fp16fml": (1 << 23, 0),
    "dit": (1 << 24, 0),
    "lse2": (1 << 25, 0),
    "rcpc-immo": (1 << 26, 0),
    "flagm": (1 << 27, 0),
    "ssbs": (1 << 28, 0),
    "sb": (1 << 29, 0),
    "pauth": (1 << 30 | 1 << 31, 0),
    "ccdp": (0, 1 << 0),
    "sve2": (0, 1 << 1),
    "sve-aes": (0, 1 << 2 | 1 << 3),
    "sve-bitperm": (0, 1 << 4),
    "sve-sha3": (0, 1 << 5),
    "sve-sm4": (0, 1 << 6),
    "altnzcv": (0, 1 << 7),
    "fptoint": (0, 1 << 8),
    "f32mm": (0, 1 << 10),
    "f64mm": (0, 1 << 11),
    "i8mm": (0, 1 << 13),
    "bf16": (0, 1 << 14),
    "rand": (0, 1 << 16),
    "bti": (0, 1 << 17),
    "mte": (0, 1 << 18),
    "sme": (0, 1 << 23),
    "sme-i16i64": (0, 1 << 24),
    "sme-f64f64": (0, 1 << 25),
    "sme-fa64": (0, 1 << 30),
    "wfxt": (0, 1 << 31),
    "cssc": (0, 1 << 34),
    "sve2p1": (0, 1 << 36),
    "sme2": (0, 1 << 37),
    "sme2p1": (0, 1 << 38),
    "sme-b16b16": (0, 1 << 41),
    "sme-f16f16": (0, 1 << 42),
    "mops": (0, 1 << 43),
    "hbc": (0, 1 << 44),
    "sve-b16b16": (0, 1 << 45),
    "rcpc3": (0, 1 << 46),
    "lut": (0, 1 << 49),
    "faminmax": (0, 1 << 50),
}
# CPU features by LLVM's names, and by the kernel's in /proc/cpuinfo.
X86_FEATURES: Mapping[str, str] = {
    "cmov": "cmov",
    "cx16": "cx16",
    "sahf": "lahf_lm",
    "popcnt": "popcnt",
    "movbe": "movbe",
    "sse": "sse",
    "sse2": "sse2",
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "avx": "avx",
    "avx2": "avx2",
    "f16c": "f16c",
    "fma": "fma",
    "fma4": "fma4",
    "xop": "xop",
    "tbm": "tbm",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "adx": "adx",
    "aes": "aes",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "gfni": "gfni",
    "rdrnd": "rdrand",
    "rdseed": "rdseed",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avxvnni": "avx_vnni",
    "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16",
    "avxneconvert": "avx_ne_convert",
    "avxifma": "avx_ifma",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
    "amx-complex": "amx_complex",
}


def cpu_features() -> tuple[str, ...]:
    """What this processor can run, by LLVM's names, sorted; of those that the system tells.

    Inside an emulator what that one emulates: it answers for the vector of the process, while
    /proc/cpuinfo may be that of the machine around it. Empty where nothing is known.
    """
    architecture = machine()
    if architecture == "aarch64":
        return aarch64_features(*(_hardware_capabilities(kind) for kind in (AT_HWCAP, AT_HWCAP2)))
    if architecture == "x86_64":
        return x86_features(text_of(Path("/proc/cpuinfo")) or "")
    return ()


def aarch64_features(first: int, second: int) -> tuple[str, ...]:
    """Features by the two words of hardware capabilities."""
    return tuple(
        sorted(
            name
            for name, (ones, others) in AARCH64_FEATURES.items()
            if first & ones == ones and second & others == others
        )
    )


def x86_features(cpuinfo: str) -> tuple[str, ...]:
    """Features by the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            flags = frozenset(value.split())
            return tuple(sorted(one for one, flag in X86_FEATURES.items() if flag in flags))
    return ()


def _hardware_capabilities(kind: int) -> int:
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(kind))
