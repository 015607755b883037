"""What the commands print, held to files in golden/, and what those that write are tried on.

`pytest tests/cli --update-golden` writes these files anew. Read the difference before keeping it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.surgery import OBJECTS, WORK, make

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/cli/golden anew from what is printed",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text to the golden file of a name."""
    # The option is only known where this folder is named on the command line.
    update = request.config.getoption("--update-golden", default=False)

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a run of training and a checkpoint of a Saver in it."""
    return make(tmp_path)


@pytest.fixture(params=WORK)
def work(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the words of a command, but for what says where to write."""
    return WORK[request.param]


@pytest.fixture(params=("rename objects", "prune names"))
def either(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the words of one of the commands, where it makes no difference on what."""
    return WORK[request.param]


@pytest.fixture(params=OBJECTS)
def objects(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the words of a command that writes an object graph anew."""
    return WORK[request.param]
