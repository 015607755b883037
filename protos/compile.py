"""Compile the declarations in this folder into what `ckpttool.pb` loads; run by hand.

    python protos/compile.py

needs grpcio-tools, and is called for after every change to a .proto file. It writes the descriptor
set, the type stubs of the messages, and `SUMS`, by which a test notices that somebody forgot.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

PROTOS = Path(__file__).resolve().parent
ROOT = PROTOS.parent
PACKAGE = ROOT / "ckpttool" / "pb"
DESCRIPTORS = PACKAGE / "descriptors.binpb"
SUMS = PROTOS / "SUMS"


def sources() -> list[Path]:
    """Return every .proto file of ours, in one order on every machine."""
    return sorted(PROTOS.rglob("*.proto"), key=lambda path: path.relative_to(PROTOS).parts)


def results() -> list[Path]:
    """Return every file that compiling writes, apart from SUMS."""
    return [DESCRIPTORS, *sorted(PACKAGE.glob("*.pyi"))]


def sums() -> str:
    """Return the text of SUMS for the files as they are now: a sha256 and a path on each line."""
    lines = []
    for path in (*sources(), *results()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{digest}  {path.relative_to(ROOT).as_posix()}\n")
    return "".join(lines)


def descriptor_set() -> bytes:
    """Return the FileDescriptorSet of all sources and what they import, without source positions.

    Raises:
        SystemExit: when the compiler refuses a file; it has said why on stderr.
    """
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).with_name("_proto")
    names = [path.relative_to(PROTOS).as_posix() for path in sources()]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "set")
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTOS}",
                f"--proto_path={well_known}",
                "--include_imports",
                f"--descriptor_set_out={target}",
                *names,
            ]
        )
        if status:
            raise SystemExit(status)
        return target.read_bytes()


def main() -> None:
    """Write all results, then SUMS."""
    sys.path.insert(0, str(ROOT))
    from protos import stubs

    data = descriptor_set()
    DESCRIPTORS.write_bytes(data)
    for name, text in stubs.render(data).items():
        (PACKAGE / name).write_text(text, encoding="utf-8")
    SUMS.write_text(sums(), encoding="utf-8")


if __name__ == "__main__":
    main()
