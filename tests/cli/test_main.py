from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import ckpttool
from ckpttool.checkpoint.locate import Location
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.cli import main as main_module
from ckpttool.cli import options
from ckpttool.cli.main import COMMANDS, CommandEntry, cli, main
from ckpttool.errors import CkptError
from tests.support.command import shell
from tests.support.fixtures import FIXTURES, ROOT

HEAVY = ("numpy", "rich", "google.protobuf", "ml_dtypes", "crc32c", "cramjam")


class Probe:
    """A command that keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

        @options.command("probe", examples=[("ckpt probe a", "Probes a.")])
        @options.path_argument()
        @options.selection_options
        @click.option("--out", type=click.Path())
        @options.format_options()
        @options.pass_settings
        def command(settings: options.Settings, /, **given: Any) -> int:
            """Probe what is given."""
            self.calls.append({"settings": settings, **given})
            if given["path"] == "bad":
                raise CkptError("bad path")
            return 1 if given["path"] == "differs" else 0

        self.command = command

    @property
    def last(self) -> dict[str, Any]:
        return self.calls[-1]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    """Put a command called probe into the table."""
    found = Probe()
    module = ModuleType("tests.cli.probe_command")
    module.command = found.command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    table = {**COMMANDS, "probe": CommandEntry(module.__name__, "Probe things.")}
    monkeypatch.setattr(cli, "table", table)
    for name in list(os.environ):
        if name.startswith("CKPT_") or name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    yield found


def rules_of(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, bool]]]:
    """Return a list to which the rules of every selector made from now on are added."""
    seen: list[list[tuple[str, bool]]] = []

    def keep(rules: Sequence[SelectionRule] = (), *, kinds: Sequence[str] = ()) -> Selector:
        seen.append([(rule.text, rule.include) for rule in rules])
        return Selector(rules, kinds=kinds)

    monkeypatch.setattr(options, "Selector", keep)
    return seen


def ckpt(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": ROOT, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "ckpttool", *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: ckpt [OPTIONS] ")
    assert err == ""
    for name, entry in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.help[:30])}", out, re.MULTILINE)
    assert "--color [auto|always|never]" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ckpt {ckpttool.__version__}\n"


@pytest.mark.parametrize("args", [["--help"], ["--version"], []])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from ckpttool.cli.main import main\n"
        f"code = main({args!r})\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "commands = [n for n in sys.modules if n in ('ckpttool.cli.ls', 'ckpttool.cli.show')]\n"
        "print(code, heavy, commands)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 [] []"


def test_as_a_module() -> None:
    done = ckpt("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ckpt {ckpttool.__version__}\n", "")
    done = ckpt("nonsense")
    assert (done.returncode, done.stdout) == (2, "")


def test_help_by_its_own_command() -> None:
    assert ckpt("help", "ls").stdout == ckpt("ls", "--help").stdout
    assert ckpt("help").stdout == ckpt("--help").stdout
    assert ckpt("-V").stdout == ckpt("--version").stdout
    done = ckpt("help", "nonsense")
    assert (done.returncode, done.stdout) == (2, "") and "no such command" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    name = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}[shell]
    script = Path(ckpttool.__file__).parent / "cli" / "completions" / name
    assert ckpt("completion", shell).stdout == script.read_text()
    assert "Choose from: bash, zsh, fish\n" in ckpt("completion").stderr


def test_a_path_in_place_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1.index").touch()
    (tmp_path / "two words").mkdir()
    for path in (tmp_path, tmp_path / "ckpt-1"):
        assert f"it is a path: try 'ckpt ls {path}'" in ckpt(str(path)).stderr
    for typed, shown in (("ckpt-1", "ckpt-1"), ("two words", "'two words'")):
        done = ckpt(typed, cwd=tmp_path)
        assert f"it is a path: try 'ckpt ls {shown}'" in done.stderr


def test_each_command_in_the_table_can_be_imported() -> None:
    context = click.Context(cli)
    for name, entry in COMMANDS.items():
        found = cli.get_command(context, name)
        assert found is not None
        assert found.name == name
        assert isinstance(found, options.Command)
        assert entry.help.endswith(".")
        assert len(entry.help) <= 66


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["prob"], "ckpt: no such command 'prob'; nearest: 'probe'\nTry 'ckpt --help'.\n"),
        (["zzzzzzz"], f"ckpt: no such command 'zzzzzzz'; there are {', '.join(COMMANDS)}, probe\n"),
        (["p\x1b[2Jrobe"], "ckpt: no such command 'p\\x1b[2Jrobe'; nearest: 'probe'\n"),
        (["--colour"], "ckpt: No such option"),
        (["probe"], "ckpt probe: Missing argument 'PATH'.\nTry 'ckpt probe --help'.\n"),
        (
            ["probe", "--format"],
            "ckpt probe: Option '--format' requires an argument.\nTry 'ckpt probe --help'.\n",
        ),
        (["probe", "a", "--nonsense"], "ckpt probe: No such option"),
        (["probe", "a", "--format", "xml"], "ckpt probe: Invalid value for '--format'"),
        (["probe", "a", "--color", "blue"], "ckpt probe: Invalid value for '--color'"),
        (["probe", "bad"], "ckpt: bad path\n"),
        (["probe", "a", "--kind", "slots"], "ckpt: unknown kind 'slots'; nearest: 'slot'\n"),
        (["probe", "a", "re:("], "ckpt: 're:(' is not a regular expression"),
        (["probe", "a", "@/nothing/here"], "ckpt: /nothing/here: no such file\n"),
    ],
)
def test_what_goes_wrong(
    probe: Probe, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") <= 2


def test_exit_codes(probe: Probe) -> None:
    assert main(["probe", "same"]) == 0
    assert main(["probe", "differs"]) == 1


@pytest.mark.parametrize(
    ("args", "verbosity", "color"),
    [
        (["probe", "a"], 0, "auto"),
        (["-v", "probe", "a"], 1, "auto"),
        (["probe", "a", "-v"], 1, "auto"),
        (["-v", "probe", "-v", "a", "--verbose"], 3, "auto"),
        (["probe", "a", "-vv"], 2, "auto"),
        (["--color", "always", "probe", "a"], 0, "always"),
        (["probe", "a", "--color", "always"], 0, "always"),
        (["--color", "always", "probe", "a", "--color=never"], 0, "never"),
    ],
)
def test_general_options_before_and_after_the_command(
    probe: Probe, args: list[str], verbosity: int, color: str
) -> None:
    assert main(args) == 0
    settings = probe.last["settings"]
    assert (settings.verbosity, settings.color) == (verbosity, color)


def test_traceback_with_vv(probe: Probe, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["probe", "bad", "-vv"], ["-vv", "probe", "bad"], ["-v", "probe", "-v", "bad"]):
        assert main(args) == 2
        assert "Traceback" in capsys.readouterr().err
    assert main(["-v", "probe", "bad"]) == 2
    assert capsys.readouterr().err == "ckpt: bad path\n"


def test_patterns_in_the_order_of_the_command_line(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = rules_of(monkeypatch)
    line = "-x one probe-path p1 --include=two -ithree --exclude four p2 -vxfive -i six"
    assert main(["probe", *line.split()]) == 0
    assert probe.last["path"] == "probe-path"
    assert seen == [
        [
            ("p1", True),
            ("p2", True),
            ("one", False),
            ("two", True),
            ("three", True),
            ("four", False),
            ("five", False),
            ("six", True),
        ]
    ]


def test_patterns_that_look_like_options(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rules_of(monkeypatch)
    assert main(["probe", "-i", "-x", "--", "a", "-i", "--kind"]) == 0
    assert seen == [[("-i", True), ("--kind", True), ("-x", True)]]


def test_kinds_with_commas_and_repeated(probe: Probe) -> None:
    assert main(["probe", "a", "--kind", "slot,step", "--kind", "ema,"]) == 0
    assert probe.last["selector"].kinds == {"slot", "step", "ema"}
    assert main(["probe", "a"]) == 0
    assert probe.last["selector"].selects_all


@pytest.mark.parametrize(
    ("args", "environ", "expected"),
    [
        ([], {}, "plain"),
        (["--json"], {}, "json"),
        (["--format", "csv"], {}, "csv"),
        (["--json", "--format", "json"], {}, "json"),
        ([], {"CKPT_PROBE_FORMAT": "names"}, "names"),
        ([], {"CKPT_PROBE_JSON": "1"}, "json"),
        (["--json"], {"CKPT_PROBE_FORMAT": "names"}, "json"),
        (["--format", "csv"], {"CKPT_PROBE_JSON": "1"}, "csv"),
        (["--format", "csv"], {"CKPT_PROBE_FORMAT": "names"}, "csv"),
    ],
)
def test_format(
    probe: Probe,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    environ: dict[str, str],
    expected: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["probe", "a", *args]) == 0
    assert probe.last["format"] == expected


def test_format_on_a_terminal(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["probe", "a"]) == 0
    assert probe.last["format"] == "table"


def test_formats_that_contradict_each_other(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    for args in (["--json", "--format", "csv"], ["--format", "csv", "--json"]):
        assert main(["probe", "a", *args]) == 2
        assert "--json and --format csv contradict" in capsys.readouterr().err


def test_every_option_from_the_environment(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = rules_of(monkeypatch)
    for name, value in {
        "CKPT_VERBOSE": "1",
        "CKPT_COLOR": "always",
        "CKPT_PROBE_INCLUDE": "a b",
        "CKPT_PROBE_EXCLUDE": "c",
        "CKPT_PROBE_KIND": "slot step",
        "CKPT_PROBE_OUT": "file",
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["probe", "a"]) == 0
    settings = probe.last["settings"]
    assert (settings.verbosity, settings.color) == (1, "always")
    assert seen == [[("a", True), ("b", True), ("c", False)]]
    assert probe.last["selector"].kinds == {"slot", "step"}
    assert probe.last["out"] == "file"
    monkeypatch.setenv("CKPT_PROBE_COLOR", "never")
    assert main(["probe", "a", "-x", "d"]) == 0
    assert probe.last["settings"].color == "never"
    assert seen[-1] == [("d", False), ("a", True), ("b", True)]
    monkeypatch.setenv("CKPT_PROBE_FORMAT", "xml")
    assert main(["probe", "a"]) == 2
    assert "Invalid value for '--format'" in capsys.readouterr().err


def test_help_of_a_command(probe: Probe, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: ckpt probe [OPTIONS] PATH [PATTERN]...\n\n  Probe what is given.")
    assert "\nExamples:\n  ckpt probe a\n    Probes a.\n" in out
    for option in (
        "-i, --include",
        "-x, --exclude",
        "--kind",
        "--json",
        "-v, --verbose",
        "--color",
    ):
        assert option in out


def test_settings_speak_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    location = Location("t\x1b", "t/ckpt-1", "V2", "state", warnings=("odd\x1b",))
    quiet = options.Settings()
    quiet.report(location)
    assert capsys.readouterr() == ("", "ckpt: warning: odd\\x1b\n")
    loud = options.Settings(verbosity=1)
    loud.report(location)
    expected = "ckpt: warning: odd\\x1b\nckpt: t\\x1b is the V2 checkpoint t/ckpt-1\n"
    assert capsys.readouterr() == ("", expected)


def test_colour_reaches_the_terminal(probe: Probe) -> None:
    assert main(["probe", "a", "--color", "always"]) == 0
    assert probe.last["settings"].terminal().color
    assert main(["probe", "a"]) == 0
    assert not probe.last["settings"].terminal().color


def test_words_that_are_not_utf8(probe: Probe) -> None:
    assert main(["probe", "a\udcff"]) == 0
    assert probe.last["path"] == "a\udcff"


def test_the_words_of_the_process(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ckpt", "probe", "differs"])
    monkeypatch.delenv(main_module.COMPLETE_VARIABLE, raising=False)
    assert main() == 1


def test_a_command_that_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"odd": CommandEntry("ckpttool.errors", "Nothing.")}
    monkeypatch.setattr(cli, "table", table)
    assert main(["odd"]) == 2
    assert capsys.readouterr().err.startswith("ckpt: internal error: AttributeError")


def test_help_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    shell = f'cd "{gone}" && rmdir "{gone}" && "{sys.executable}" -m ckpttool --version'
    env = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(["bash", "-c", shell], env=env, capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "ls {}",
        "show {}",
        "diff {}",
        "check {} --finite",
        "rename {} -n",
        "prune {} --slots -n",
        "convert-legacy {} -n",
        "export-meta-json {}",
    ],
)
def test_a_glob_that_the_shell_expanded(line: str) -> None:
    done = shell(f"$CKPT {line.format('$1/model.ckpt-3.*')}", words=[f"{FIXTURES}/v2/tf1.15/saver"])
    assert (done.code, done.out) == (2, "")
    assert "it is a path, and one checkpoint is meant: did the shell expand" in done.err
