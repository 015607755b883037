"""What is imported only when it is needed, because importing it takes time that people feel."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support import fixtures
from tests.support.arrays import info, safetensors_bytes
from tests.support.limits import run_python

HEAVY = ("numpy", "ml_dtypes", "google", "rich", "click", "cramjam", "tensorflow")

SAY = """
import json, sys
import site
before = set(sys.modules)
{code}
print(json.dumps(sorted({{name.split(".")[0] for name in set(sys.modules) - before}})))
"""

PLAIN = fixtures.bundle("v2/tf2.21/saver_v2/model.ckpt-2").prefix
OBJECTS = fixtures.bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix
PARTITIONED = fixtures.bundle("v2/tf2.21/partitioned_sharded/model").prefix


def imported(code: str, *arguments: str) -> set[str]:
    """Return the top-level modules that code imports."""
    done = run_python(SAY.format(code=code), *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(json.loads(done.stdout.strip().split("\n")[-1]))


def test_the_package_imports_nothing() -> None:
    found = imported("import ckpttool; ckpttool.__version__")
    assert found & set(HEAVY) == set()
    assert found & {"crc32c", "json", "re", "dataclasses"} == set()


@pytest.mark.parametrize("name", ["errors", "printable", "coding", "storage.source", "pb", "table"])
def test_parts_that_need_nothing(name: str) -> None:
    assert imported(f"import ckpttool.{name}") & set(HEAVY) == set()


@pytest.mark.parametrize("prefix", [PLAIN, OBJECTS, PARTITIONED], ids=os.path.basename)
def test_an_index_is_read_without_numpy_and_protobuf(prefix: str) -> None:
    code = (
        "from ckpttool.bundle.index import BundleIndex\n"
        "index = BundleIndex(sys.argv[1])\n"
        "rows = [(e.dtype.name, e.shape, index.slice_entries(k)) for k, e in index.entries.items()]"
    )
    assert imported(code, prefix) & set(HEAVY) == set()


def test_variables_need_numpy_alone() -> None:
    code = (
        "from ckpttool import train\n"
        "assert 'numpy' not in sys.modules\n"
        "module = train.Module()\n"
        "module.v = [train.Variable(1.0), train.Variable('text')]"
    )
    assert imported(code) & set(HEAVY) == {"numpy"}


def test_a_reader_imports_numpy_only_for_a_value() -> None:
    code = "from ckpttool.bundle.reader import BundleReader\nreader = BundleReader(sys.argv[1])\n"
    assert imported(code + "reader.shard_files()", PLAIN) & set(HEAVY) == set()
    found = imported(code + "reader.read(next(iter(reader.entries)))", PLAIN)
    assert found & set(HEAVY) == {"numpy"}


def test_a_writer_imports_no_protobuf() -> None:
    found = imported("import ckpttool.bundle.writer")
    assert found & set(HEAVY) == set()


def test_opening_a_checkpoint_imports_neither_numpy_nor_protobuf() -> None:
    code = "import ckpttool\nckpt = ckpttool.open_checkpoint(sys.argv[1])\nlist(ckpt.entries)"
    assert imported(code, PLAIN) & set(HEAVY) == set()


COMMAND = (
    "sys.argv[0] = 'ckpt'\n"
    "from ckpttool.cli.main import main\n"
    "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
)

needs_command = pytest.mark.skipif(
    importlib.util.find_spec("ckpttool.cli.main") is None, reason="there is no command yet"
)


@needs_command
@pytest.mark.parametrize("prefix", [PLAIN, OBJECTS, PARTITIONED], ids=os.path.basename)
@pytest.mark.parametrize("options", [(), ("--json",), ("--format", "csv"), ("-l",)], ids=str)
def test_ls_in_a_pipe(prefix: str, options: tuple[str, ...]) -> None:
    found = imported(COMMAND, "ls", *options, prefix)
    assert found & {"numpy", "ml_dtypes", "rich", "cramjam", "tensorflow"} == set()
    assert "click" in found


@needs_command
def test_ls_of_plain_names_parses_no_graph() -> None:
    assert "google" not in imported(COMMAND, "ls", PLAIN)
    assert "google" not in imported(COMMAND, "ls", PARTITIONED)


@needs_command
def test_the_other_format_stays_out() -> None:
    """Only the names of its files are known, by which a folder is told."""
    names = ["ckpttool.legacy", "ckpttool.legacy.naming"]
    code = COMMAND + "\nprint(sorted(n for n in sys.modules if 'legacy' in n))"
    for options in ((), ("-l",)):
        done = run_python("import sys\n" + code, "ls", *options, PLAIN)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().split("\n")[-1] == str(names)
    code = COMMAND + "\nprint([n for n in sys.modules if 'interchange.' in n])"
    done = run_python("import sys\n" + code, "ls", PLAIN)
    assert done.stdout.strip().split("\n")[-1] == "['ckpttool.interchange.naming']"


@needs_command
def test_matching_needs_no_values() -> None:
    found = imported(COMMAND, "match", OBJECTS, OBJECTS)
    assert found & {"numpy", "ml_dtypes", "rich", "cramjam", "tensorflow", "google"} == set()


@needs_command
def test_ls_of_v1_needs_no_values() -> None:
    """Only who reads values needs numpy."""
    single = os.path.join(fixtures.FIXTURES, "v1/tf1.15/dtypes/vector")
    found = imported(COMMAND, "ls", single)
    assert found & {"numpy", "ml_dtypes", "rich", "cramjam", "tensorflow", "google"} == set()


@needs_command
def test_ls_of_hdf5_needs_h5py(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    path = tmp_path / "m.weights.h5"
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = [1.0, 2.0]
    found = imported(COMMAND, "ls", str(path))
    assert found & {"h5py", "rich", "cramjam", "tensorflow", "google"} == {"h5py"}


@needs_command
def test_ls_of_safetensors_needs_no_values(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes({"w": info("F32", [1], 0, 4)}, bytes(4)))
    found = imported(COMMAND, "ls", str(path))
    heavy = {"numpy", "ml_dtypes", "rich", "cramjam", "tensorflow", "google", "h5py"}
    assert found & heavy == set()


@needs_command
@pytest.mark.parametrize("prefix", [PLAIN, OBJECTS], ids=os.path.basename)
def test_data_shards_are_carried_without_numpy(prefix: str, tmp_path: Path) -> None:
    words = ("rename", prefix, "--prefix", "scope/", "-o", str(tmp_path / "out"), "--data", "copy")
    heavy = {"ml_dtypes", "rich", "cramjam", "tensorflow"}
    done = run_python(SAY.format(code=COMMAND), *words)  # which tells on stderr what it has written
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout.splitlines()[-1]))
    assert found & (heavy | {"numpy"}) == set()


@needs_command
@pytest.mark.parametrize("options", [("--version",), ("--help",)], ids=str)
def test_help_and_version(options: tuple[str, ...]) -> None:
    assert imported(COMMAND, *options) & set(HEAVY) <= {"click"}


def test_tensorflow_is_never_imported() -> None:
    """Nobody needs it, and none of the tests above would notice it where it is not installed."""
    assert "tensorflow" not in sys.modules
    for folder, _, names in os.walk(os.path.join(fixtures.ROOT, "ckpttool")):
        for name in names:
            if name.endswith(".py"):
                text = fixtures.read_bytes(os.path.join(folder, name))
                assert b"import tensorflow" not in text, name
                assert b"from tensorflow" not in text, name
