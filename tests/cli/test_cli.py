"""The command line, as a person or a script uses it."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from importlib import metadata

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import separax as sx
from separax.cli.app import app

FAST = ["--points", "8", "--steps", "40"]


def said(*arguments):
    """What a command prints on a wide screen, in this process."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def separax(*arguments, cwd, **options):
    return subprocess.run(
        [sys.executable, "-m", "separax", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        **options,
    )


def test_the_version_is_that_of_the_package_and_of_what_computes():
    found = said("--version")
    assert found.startswith(
        f"separax {metadata.version('separax')}, jax {metadata.version('jax')}, "
    )
    assert metadata.version("separax") == sx.__version__


def test_without_a_command_it_says_what_to_type(tmp_path):
    """Every line can be typed: the commands are there."""
    done = separax(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    commands = typer.main.get_command(app).commands
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("  separax")]
    assert len(lines) >= 4
    for _, command, *_ in lines:
        assert command in commands or command == "--help"


def test_list_names_the_catalogue():
    done = said("list")
    assert "helmholtz" in done
    assert "klein-gordon" in done


@pytest.mark.parametrize(
    ("driver", "plugin", "asked", "words"),
    [
        (False, False, None, ["no NVIDIA driver", "pip install 'separax[gpu]'"]),
        (
            False,
            True,
            None,
            ["no NVIDIA driver is installed (there is no nvidia-smi): install one"],
        ),
        (True, False, None, ["no plugin", "pip install 'separax[gpu]'"]),
        (True, True, "cpu", ["JAX_PLATFORMS=cpu", "unset"]),
        (True, True, None, ["cannot use them", 'jax.devices("cuda")']),
    ],
)
def test_the_doctor_names_devices_versions_memory_cache_and_what_is_missing(
    monkeypatch, tmp_path, driver, plugin, asked, words
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: plugin or None if name == "jax_cuda13_plugin" else find(name, *rest),
    )
    monkeypatch.setattr("shutil.which", lambda name: name if driver else None)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setenv("SEPARAX_CACHE", str(tmp_path))
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if asked:
        monkeypatch.setenv("JAX_PLATFORMS", asked)
    found = said("doctor")
    for word in [f"jax {jax.__version__}", "device", "free memory", str(tmp_path), *words]:
        assert word in found
    state = "installed" if plugin else "not installed"
    assert f"separax[gpu] NVIDIA GPUs: {state}" in found


@pytest.mark.whole
def test_solve_prints_one_json_object_and_keeps_the_run(tmp_path):
    done = separax("solve", "klein-gordon", *FAST, "--seed", "3", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    contract = (
        "problem recipe network points steps seed relative_l2 rmse train_seconds compile_seconds"
        " ms_per_step peak_memory_mb device run_dir"
    )
    assert set(contract.split()) <= set(result)
    assert (
        result["problem"],
        result["recipe"],
        result["points"],
        result["steps"],
        result["seed"],
    ) == ("klein-gordon", "best", 8, 40, 3)
    run = tmp_path / result["run_dir"]
    assert {p.name for p in run.iterdir()} >= {
        "settings.json",
        "environment.json",
        "state.a.npz",
        "solution.npz",
        "factors.npz",
        "history.csv",
        "record.json",
        "report.html",
    }
    assert json.loads((run / "record.json").read_text()) == result
    assert "\x1b" not in done.stderr  # no terminal, no escape codes
    assert "step 40 of 40" in done.stderr


@pytest.mark.slow
def test_a_baseline_runs(tmp_path):
    options = ["--recipe", "paper", "--network", "pinn", "--points", "6", "--steps", "20", "--json"]
    done = separax("solve", "helmholtz", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["network"] == "pinn"


@pytest.mark.whole
def test_several_seeds_report_each(tmp_path):
    done = separax("solve", "helmholtz", *FAST, "--seeds", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["seeds"] == 2
    assert result["relative_l2"] == pytest.approx(sum(result["relative_l2_each"]) / 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["helmoltz"], "problem | helmoltz | Did you mean 'helmholtz'"),
        (["helmholtz", "--recipe", "papr"], "recipe | papr | Did you mean 'paper'"),
        (["helmholtz", "--network", "spin"], "network | spin | Did you mean 'spinn'"),
        (["helmholtz", "--precision", "float23"], "precision | float23 | Did you mean 'float32'"),
        (["helmholtz", "--points", "0"], "points | 0 | at least 1"),
        (["helmholtz", "--steps", "-5"], "steps | -5 | at least 1"),
        (["helmholtz", "--seeds", "0"], "seeds | at least 1"),
        (["helmholtz", "--resume"], "--resume | --out"),
        (["flow-mixing", "--points", "4000"], "points | 4000 | fewer points"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        app(["solve", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    for word in words.split(" | "):
        assert word in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    first = separax("solve", "helmholtz", *FAST, "--out", "run", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    again = separax("solve", "helmholtz", *FAST, "--out", "run", cwd=tmp_path)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    other = separax(
        "solve",
        "helmholtz",
        "--points",
        "9",
        "--steps",
        "40",
        "--out",
        "run",
        "--resume",
        cwd=tmp_path,
    )
    assert other.returncode == 2
    assert "resume" in other.stderr


@pytest.mark.whole
def test_ctrl_c_keeps_the_best_and_resume_ends_where_an_uninterrupted_run_does(tmp_path):
    options = ["klein-gordon", "--points", "8", "--steps", "1000", "--json"]
    command = [sys.executable, "-m", "separax", "solve", *options, "--out", "cut"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "step" in line:
                os.kill(process.pid, signal.SIGINT)
                break
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out)["interrupted"] is True
    assert "solution.npz" in " ".join(err.split())
    stopped = json.loads(out)["steps"]
    assert 0 < stopped < 1000
    resumed = separax("solve", *options, "--out", "cut", "--resume", cwd=tmp_path)
    whole = separax("solve", *options, "--out", "whole", cwd=tmp_path)
    assert resumed.returncode == whole.returncode == 0
    assert json.loads(resumed.stdout)["relative_l2"] == json.loads(whole.stdout)["relative_l2"]
    with (
        np.load(tmp_path / "cut" / "solution.npz") as cut,
        np.load(tmp_path / "whole" / "solution.npz") as whole,
    ):
        for name in set(cut) - {"about"}:
            np.testing.assert_array_equal(cut[name], whole[name])
    assert (tmp_path / "cut" / "history.csv").read_text().count("\n") >= 100


@pytest.mark.whole
def test_bench_prints_both_steps(tmp_path):
    done = separax("bench", "helmholtz", "--points", "8", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["faster"] == pytest.approx(
        result["paper_style"]["ms_per_step"] / result["ours"]["ms_per_step"]
    )
    assert result["gradient_difference"] < 1e-4
