"""The AArch64 user space of the emulated board: made once, kept in the user's cache folder.

It holds the distribution's own arm64 Python and the aarch64 wheels of the TVM version that is
installed here, unpacked and never installed: no root, no chroot, no binfmt_misc and no foreign
architecture on the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import platformdirs

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.guest_packages import SERVER_MODULE, guest_packages

SYSROOT_VARIABLE = "TUNEBOOK_EMULATED_SYSROOT"
QEMU = "qemu-aarch64-static"
# Raised whenever what follows makes another sysroot out of the same versions.
RECIPE = 1
STAMP = "tunebook-sysroot.json"
WHEELS = Path("opt", "tvm")
# glibc of the oldest distribution that we name (Ubuntu 22.04) is 2.35.
PLATFORMS = ("2_28", "2_27", "2_26", "2_17")
DISTRIBUTION_PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
# A board only runs: the compiler is half of the wheel.
UNUSED_LIBRARIES = ("libtvm_compiler.so", "libtvm_runtime_cuda.so")


@dataclass(frozen=True)
class Sysroot:
    """A user space for qemu-user; `root` is its absolute path, `python` its interpreter's."""

    root: Path
    python: Path

    def command(self, cpu: str, *packages: Path) -> list[str]:
        """What runs the guest's Python as a process of this machine; its arguments follow.

        `cpu` is QEMU's name of the emulated core; the guest shares this machine's files, and also
        imports what is in the folders `packages`.
        """
        return [qemu_path(), *self.guest_python(cpu, *packages)]

    def guest_python(self, cpu: str, *packages: Path) -> list[str]:
        """What follows the emulator in `command`."""
        settings = {
            "PYTHONHOME": str(self.root / "usr"),
            "PYTHONPATH": ":".join(map(str, (self.root / WHEELS, *packages))),
        }
        pairs = [word for item in settings.items() for word in ("-E", "=".join(item))]
        return ["-cpu", cpu, "-L", str(self.root), *pairs, str(self.python)]


def qemu_path() -> str:
    """Where the emulator is; BoardError with the way to get it when it is missing."""
    found = shutil.which(QEMU)
    if found is None:
        raise BoardError(
            f"the emulated board needs {QEMU}, which is not installed: "
            "apt-get install qemu-user-static"
        )
    return found


def is_installed() -> bool:
    """Whether the emulated board can be started here without making anything first."""
    if shutil.which(QEMU) is None:
        return False
    named = os.environ.get(SYSROOT_VARIABLE)
    root = Path(platformdirs.user_cache_dir("tunebook")) / _root_name()
    return bool(named) or (root / STAMP).exists()


def emulated_sysroot() -> Sysroot:
    """The sysroot that `TUNEBOOK_EMULATED_SYSROOT` names, else ours, made if need be.

    Making it downloads some 80 MB and takes about a minute. Raises BoardError.
    """
    qemu_path()
    named = os.environ.get(SYSROOT_VARIABLE)
    if named:
        return _open(Path(named).expanduser().resolve(), f"named by {SYSROOT_VARIABLE}")
    folder = Path(platformdirs.user_cache_dir("tunebook"))
    root = folder / _root_name()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f"{root.name}.lock"):
        if not _is_whole(root):
            _make(root)
    return _open(root, "made by Tunebook")


def _root_name() -> str:
    return f"emulated-aarch64-{'-'.join(_tvm_versions().values())}-r{RECIPE}"


def _open(root: Path, origin: str) -> Sysroot:
    python = _guest_python(root)
    if python is None:
        raise BoardError(f"the sysroot {root}, {origin}, holds no usr/bin/python3.N")
    for package, version in _tvm_versions().items():
        if not (root / WHEELS / f"{package.replace('-', '_')}-{version}.dist-info").is_dir():
            raise BoardError(
                f"the sysroot {root}, {origin}, does not hold {package} {version}, which is "
                "installed here; a board must run the same TVM"
            )
    return Sysroot(root, python)


def _tvm_versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("apache-tvm", "apache-tvm-ffi")}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two commands at once make it once."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(root: Path) -> bool:
    try:
        stamp = json.loads((root / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(stamp, dict) and stamp.get("files") == _digest(root)


def _write_stamp(root: Path) -> None:
    stamp = {"versions": _tvm_versions(), "files": _digest(root)}
    (root / STAMP).write_text(json.dumps(stamp, indent=1))


def _digest(root: Path) -> str:
    """Over the names and sizes of all files but bytecode, which comes and goes."""
    lines = [
        f"{path.relative_to(root)} {path.lstat().st_size}"
        for path in root.rglob("*")
        if path.name != STAMP and path.suffix != ".pyc" and (path.is_file() or path.is_symlink())
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _make(root: Path) -> None:
    """Build beside the final place and rename, so that half a sysroot is never found."""
    for abandoned in root.parent.glob(f"{root.name}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=f"{root.name}-") as name:
        unfinished = Path(name, "root")
        unfinished.mkdir()
        _unpack_distribution(unfinished, Path(name))
        python = _guest_python(unfinished)
        if python is None:
            raise BoardError("the distribution's arm64 packages hold no usr/bin/python3.N")
        _install_wheels(unfinished, python.name.removeprefix("python"))
        _start_once(Sysroot(unfinished, python))
        _write_stamp(unfinished)
        shutil.rmtree(root, ignore_errors=True)
        unfinished.rename(root)


def _unpack_distribution(root: Path, work: Path) -> None:
    configuration = _apt_configuration(work)
    environment = os.environ | {"APT_CONFIG": str(configuration), "LC_ALL": "C"}
    _run(["apt-get", "-q", "update"], "apt-get", environment)
    download = ["apt-get", "-q", "-y", "--download-only", "--no-install-recommends", "install"]
    _run([*download, *DISTRIBUTION_PACKAGES], "apt-get", environment)
    for package in sorted((work / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)], "dpkg")
    if not (root / "lib").exists():
        # Where the distribution's packages already live under /usr, base-files makes this link.
        (root / "lib").symlink_to("usr/lib")
    for unused in ("doc", "man", "locale"):
        shutil.rmtree(root / "usr/share" / unused, ignore_errors=True)


def _apt_configuration(work: Path) -> Path:
    """An apt of its own: the host's sources and keys, but another architecture and state."""
    for folder in ("lists/partial", "archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    configuration = work / "apt.conf"
    configuration.write_text(
        'APT::Architecture "arm64";\n'
        'APT::Architectures { "arm64"; };\n'
        'APT::Sandbox::User "";\n'
        f'Dir::State "{work}";\n'
        f'Dir::State::lists "{work}/lists";\n'
        f'Dir::State::status "{work}/status";\n'
        f'Dir::Cache "{work}";\n'
        f'Dir::Cache::archives "{work}/archives";\n'
    )
    return configuration


def _install_wheels(root: Path, version: str) -> None:
    pinned = [f"{name}=={number}" for name, number in _tvm_versions().items()]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
        *("--target", str(root / WHEELS), "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", version),
    ]
    for platform in PLATFORMS:
        command += ["--platform", f"manylinux_{platform}_aarch64"]
    command += ["--platform", "manylinux2014_aarch64"]
    _run([*command, *pinned, "numpy", "cloudpickle", "psutil"], "python3-pip")
    for library in UNUSED_LIBRARIES:
        (root / WHEELS / "tvm/lib" / library).unlink(missing_ok=True)


def _start_once(sysroot: Sysroot) -> None:
    """Shows that the guest runs, and leaves the bytecode without which it starts in 25 s, not 2.

    The guest compiles for itself: the host's Python may be another version.
    """
    # Empty is unset: the user's own environment may ask Python to write none.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    guest = sysroot.command("max", guest_packages())
    _run([*guest, "-m", SERVER_MODULE, "--help"], "qemu-user-static", environment)


def _guest_python(root: Path) -> Path | None:
    for path in sorted((root / "usr/bin").glob("python3.*")):
        if re.fullmatch(r"python3\.\d+", path.name):
            return path
    return None


def _run(command: Sequence[str], package: str, environment: dict[str, str] | None = None) -> None:
    """Run one step; BoardError names it and its last words, or the package that it lacks."""
    step = "making the emulated board's sysroot failed"
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise BoardError(
            f"{step}: {command[0]} is missing; install the package {package}, or name a ready "
            f"sysroot by {SYSROOT_VARIABLE}"
        ) from error
    if done.returncode != 0:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-2:]
        raise BoardError(
            f"{step} at {Path(command[0]).name} ({package}): {' | '.join(words)}; or name a ready "
            f"sysroot by {SYSROOT_VARIABLE}"
        )
