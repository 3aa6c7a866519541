"""Spellings of targets as they are met, and the canonical text or the error of each.

Beside those of public tuning logs and of TVM itself there are the ones that our own parser must
get right. Unknown names of processors and features need LLVM's lists, and are tested with them.
"""

from __future__ import annotations

from typing import Any

A64 = "-mtriple=aarch64-linux-gnu"
DOTPROD = f"llvm {A64} -mattr=+dotprod,+neon -num-cores=4"
PI4 = f"llvm {A64} -mcpu=cortex-a72 -mattr=+neon -num-cores=4"
RK3399 = f"llvm {A64} -mattr=+neon -model=rk3399 -num-cores=2"
EXPORTED = (
    '{"kind":"llvm","tag":"","keys":["arm_cpu","cpu"],"feature.has_sme":false,'
    '"feature.has_dotprod":true,"feature.is_aarch64":true,"num-cores":4,'
    '"mtriple":"aarch64-linux-gnu","mattr":["+neon","+dotprod"]}'
)

CANONICAL: list[tuple[Any, str]] = [
    # The order of options and features says nothing.
    (f"llvm {A64} -mattr=+neon,+dotprod -num-cores=4", DOTPROD),
    (f"llvm -num-cores=4 -mattr=+dotprod,+neon {A64}", DOTPROD),
    (f"llvm {A64} -mattr=+neon,+neon,+dotprod -num-cores=4", DOTPROD),
    (f"llvm {A64} -mattr=-sve,+neon -num-cores=4", f"llvm {A64} -mattr=+neon,-sve -num-cores=4"),
    # TVM's own forms.
    (
        {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "mattr": ["+neon", "+dotprod"],
            "num-cores": 4,
        },
        DOTPROD,
    ),
    (EXPORTED, DOTPROD),
    (
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4, "mattr": []},
        f"llvm {A64} -num-cores=4",
    ),
    (
        {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "num-cores": 4,
            "host": {"kind": "llvm", "mtriple": "x86_64-linux-gnu"},
        },
        f"llvm {A64} -num-cores=4",
    ),
    # Names, and what no longer is an option.
    (
        f"llvm -keys=arm_cpu,cpu -device=arm_cpu -link-params=0 -mattr=+neon -model=rk3399 "
        f"{A64} -num-cores=2",
        RK3399,
    ),
    (
        "llvm -device=arm_cpu -model=rk3399 -target=aarch64-linux-gnu -mattr=+neon -num-cores=2",
        RK3399,
    ),
    # Triples.
    (
        {
            "kind": "llvm",
            "mtriple": "aarch64-unknown-linux-gnu",
            "mcpu": "neoverse-n1",
            "num-cores": 4,
        },
        f"llvm {A64} -mcpu=neoverse-n1 -num-cores=4",
    ),
    (
        "llvm -mtriple=arm64-linux-android -mattr=+neon -model=snapdragon835 -num-cores=4",
        "llvm -mtriple=aarch64-linux-android -mattr=+neon -model=snapdragon835 -num-cores=4",
    ),
    (
        "llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a53 -num-cores=4",
        "llvm -mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a53 -mattr=+neon -num-cores=4",
    ),
    (
        "llvm -mtriple=x86_64-pc-linux-gnu -num-cores=2",
        "llvm -mtriple=x86_64-linux-gnu -num-cores=2",
    ),
    (
        "llvm -mtriple=x86_64-unknown-linux-gnu -num-cores=2",
        "llvm -mtriple=x86_64-linux-gnu -num-cores=2",
    ),
    ("llvm -mtriple=aarch64-none-linux-gnu -num-cores=2", f"llvm {A64} -num-cores=2"),
    ("llvm -mtriple=aarch64-none-elf -num-cores=2", "llvm -mtriple=aarch64-none-elf -num-cores=2"),
    (
        "llvm -mtriple=arm64-apple-darwin23 -num-cores=8",
        "llvm -mtriple=aarch64-apple-darwin23 -num-cores=8",
    ),
    # Tags, alone and with options after them.
    ("raspberry-pi/4b-aarch64", PI4),
    ({"tag": "raspberry-pi/4b-aarch64"}, PI4),
    ("raspberry-pi/4b-aarch64 -num-cores=2", PI4.replace("=4", "=2")),
    ("arm/rk3399 -num-cores=2", RK3399),
    ({"tag": "arm/rk3399", "num-cores": 2}, RK3399),
    # Options that change code.
    (
        f"llvm -num-cores=4 -opt-level=2 -mcpu=cortex-a72 {A64}",
        f"llvm {A64} -mcpu=cortex-a72 -opt-level=2 -num-cores=4",
    ),
    (
        f"llvm {A64} -num-cores=4 -vector-width=128 -fast-math=true -mabi=lp64 -fast-math-nnan=0",
        f"llvm {A64} -fast-math=1 -mabi=lp64 -vector-width=128 -num-cores=4",
    ),
    (
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4, "fast-math": True},
        f"llvm {A64} -fast-math=1 -num-cores=4",
    ),
    (f"llvm {A64} -num-cores=4 -fast-math", f"llvm {A64} -fast-math=1 -num-cores=4"),
    ("llvm --mtriple aarch64-linux-gnu -num-cores 04", f"llvm {A64} -num-cores=4"),
]

REFUSED: list[tuple[Any, str]] = [
    ("", "empty"),
    ("   ", "empty"),
    ({}, "empty"),
    (f"llvm {A64} -mattr=+neon", "num-cores"),
    ("arm/rk3399", "num-cores"),
    ("llvm -num-cores=4", "mtriple"),
    (f"llvm {A64} -num_cores=4", "'num_cores' is unknown; did you mean 'num-cores'"),
    (f"llvm {A64} -num-cores=4 -mccpu=cortex-a72", "did you mean 'mcpu'"),
    (f"llvm {A64} -mattr=+sve,-sve -num-cores=4", "sve"),
    (f"llvm {A64} -mattr=neon -num-cores=4", "needs a sign: +neon"),
    (f"llvm {A64} -num-cores=0", "num-cores"),
    (f"llvm {A64} -num-cores=-4", "num-cores"),
    (f"llvm {A64} -num-cores=four", "four"),
    (f"llvm {A64} -num-cores=4.5", "4.5"),
    (f"llvm {A64} -num-cores=99999999999", "num-cores"),
    (f"llvm {A64} -num-cores=4 -num-cores=2", "num-cores twice"),
    (f"llvm {A64} -num-cores=4 -opt-level=fast", "opt-level"),
    (f"llvm {A64} -num-cores=4 -fast-math=maybe", "fast-math"),
    (f"llvm {A64} -num-cores=4 -mcpu=", "mcpu is empty"),
    (f"llvm {A64} -num-cores=4 -model='my board'", "space"),
    (f"llvm {A64} -num-cores=4 cortex-a72", "cortex-a72"),
    (f"llvm {A64} -num-cores=4 -model='open", "cannot be split"),
    (f"{A64} -num-cores=4", "kind first"),
    ("llvm -mtriple=aarch64 -num-cores=4", "no triple"),
    ("opencl -device=mali -model=rk3399", "opencl"),
    ({"kind": "cuda", "arch": "sm_90"}, "cuda"),
    ({"mtriple": "aarch64-linux-gnu", "num-cores": 4}, "no kind"),
    ("host", "this machine"),
    ("raspberry-pi/4b-aarch46", "did you mean 'raspberry-pi/4b-aarch64'"),
    ({"tag": "arm/toaster"}, "arm/toaster"),
    ('{"kind": "llvm", ', "JSON"),
    ("{" * 100_000, "JSON"),
    ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": True}, "num-cores"),
    ({"kind": "llvm", "mtriple": ["aarch64-linux-gnu"], "num-cores": 4}, "mtriple"),
    ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4, "mattr": [1]}, "mattr"),
    ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4, 7: "x"}, "7"),
]
