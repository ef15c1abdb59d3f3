"""Running the paper's rows: what is recorded, what is skipped, and what an interrupted run
leaves."""

import dataclasses
import json
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from separax.cli.app import app
from separax.core import data_to_part
from separax.core.errors import Diverged, MemoryPrediction
from separax.paper.catalogue import CATALOGUE
from separax.paper.reproduce.plan import Job
from separax.paper.reproduce.records import collect, read_record, recorded, write_record
from separax.paper.reproduce.rows import compare
from separax.paper.reproduce.running import run_all
from separax.paper.reproduce.showing import reproduce_rows
from separax.paper.reproduce.tables import documents
from separax.residuals.loss import Loss
from separax.runs.files import Damaged
from separax.runs.folder import read_settings
from separax.runs.states import Lock
from separax.solving.entry import solve
from separax.training.trainer import Trainer

pytestmark = pytest.mark.whole
JOB = Job("helmholtz", "spinn", 6, (0, 1), steps=40)


@pytest.fixture
def quick(monkeypatch):
    """A step is not timed; it takes a second otherwise."""
    monkeypatch.setattr(
        "separax.paper.reproduce.running.step_cost",
        lambda *_: {"ms_per_step": 0.5, "compile_seconds": 1.0, "memory_mb": 2.0},
    )


def go(jobs, folder):
    """The records, and what was said."""
    said = []
    return run_all(jobs, folder, "separax reproduce", said.append, False), said


def run_of(folder, start="helmholtz/spinn-6-"):
    """The folder of the only run whose name begins so."""
    (found,) = (folder / "runs").glob(f"{start}*")
    return found


@pytest.fixture
def untrained(monkeypatch):
    """Fails if anything is trained."""

    def fail(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with one row, run in full; not to be changed."""
    folder = tmp_path_factory.mktemp("reproduced")
    go([JOB], folder)
    return folder


@pytest.fixture
def folder(done, tmp_path):
    """A copy of it that may be changed: the record and the run."""
    for path in [done / "helmholtz" / "spinn-6.json", *run_of(done).iterdir()]:
        copy = tmp_path / path.relative_to(done)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path


# --- a row ----------------------------------------------------------------------------------------


def test_a_row_becomes_a_record_that_holds(done):
    record = read_record(done / "helmholtz" / "spinn-6.json")
    assert (record["problem"], record["network"], record["points"], record["axes"]) == (
        "helmholtz",
        "spinn",
        6,
        3,
    )
    assert (record["steps"], record["seeds"], record["status"], record["note"]) == (
        40,
        [0, 1],
        "done",
        "",
    )
    kept = json.loads((run_of(done) / "record.json").read_text())
    assert record["relative_l2"] == pytest.approx(kept["relative_l2_each"])
    assert record["relative_l2"][0] != record["relative_l2"][1]
    assert np.mean(record["rmse"]) == pytest.approx(kept["rmse"])
    # rmse / relative L2 is the root mean square of the solution on the lattice of errors
    np.testing.assert_allclose(
        np.array(record["rmse"]) / record["relative_l2"],
        record["rmse"][0] / record["relative_l2"][0],
    )
    assert record["ms_per_step"] > 0
    assert record["memory_mb"] > 0
    assert record["train_seconds"] == pytest.approx(kept["train_seconds"])
    assert record["ms_per_step_together"] == pytest.approx(1e3 * record["train_seconds"] / 40)
    assert record["curve"]["steps"][-1] == 40
    assert len(record["curve"]["relative_l2"][-1]) == 2
    asked = read_settings(run_of(done))
    assert {k: v for k, v in record["settings"].items() if asked[k] != v}.keys() == {"recipe"}
    assert repr(data_to_part(asked["recipe"])) == record["settings"]["recipe"]
    assert record["command"] == "separax reproduce"


@pytest.mark.usefixtures("untrained", "quick")
def test_what_is_recorded_is_not_run_again(done):
    path = done / "helmholtz" / "spinn-6.json"
    before = path.stat().st_mtime_ns, path.read_bytes()
    records, said = go(
        [
            JOB,
            Job("helmholtz", "spinn", 6, (1,), steps=30),
            Job("helmholtz", "spinn", 6, (0,), train=False),
        ],
        done,
    )
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert [r["relative_l2"] for r in records] == [read_record(path)["relative_l2"]] * 3
    assert (
        said[0]
        == "[1/3] helmholtz, spinn, 6 points per axis: recorded already, 40 steps and 2 seeds"
    )
    assert sorted(p.name for p in path.parent.iterdir()) == ["spinn-6.json"]


@pytest.mark.usefixtures("quick")
def test_a_damaged_record_is_named_and_made_again(folder):
    path = folder / "helmholtz" / "spinn-6.json"
    before = read_record(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(Damaged):
        recorded(JOB, folder)
    state = (run_of(folder) / "state.a.npz").read_bytes()
    _, said = go([JOB], folder)
    assert str(path) in said[0]
    assert "cut short" in said[0]
    after = read_record(path)
    assert (after["relative_l2"], after["loss"], after["train_seconds"]) == (
        before["relative_l2"],
        before["loss"],
        before["train_seconds"],
    )
    assert (
        run_of(folder) / "state.a.npz"
    ).read_bytes() == state  # its run was there: nothing trained
    assert run_of(folder).name == run_of(folder, "helmholtz/").name


@pytest.mark.usefixtures("quick")
def test_a_longer_run_takes_the_place_of_a_shorter_one(folder, monkeypatch):
    path, longer = folder / "helmholtz" / "spinn-6.json", dataclasses.replace(JOB, steps=60)
    go([longer], folder)
    assert (read_record(path)["steps"], read_record(path)["seeds"]) == (60, [0, 1])
    runs = [read_settings(run) for run in (folder / "runs" / "helmholtz").iterdir()]
    assert sorted(run["steps"] for run in runs) == [40, 60]  # neither in the other's way
    before = path.read_bytes()
    monkeypatch.setattr("separax.paper.reproduce.running.available", lambda: 1)
    go([dataclasses.replace(JOB, steps=80)], folder)
    assert path.read_bytes() == before  # a row that ran is worth more than one that does not fit


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("trouble", [MemoryPrediction("needs too much"), Diverged("no numbers")])
def test_what_fails_takes_no_place_of_what_worked(folder, monkeypatch, trouble):
    path = folder / "helmholtz" / "spinn-6.json"
    old = path.read_bytes()

    def fail(*_, **__):
        raise trouble

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)
    (record,), said = go([dataclasses.replace(JOB, seeds=(0, 1, 2))], folder)
    assert record["status"] == "timed"
    assert path.read_bytes() == old
    assert sorted(p.name for p in path.parent.iterdir()) == ["spinn-6.json"]
    assert any(str(trouble) in line for line in said)


@pytest.mark.usefixtures("quick")
def test_a_row_that_another_process_runs_is_left_to_it(done, tmp_path):
    (tmp_path / "runs" / "helmholtz").mkdir(parents=True)
    (tmp_path / "runs" / "helmholtz" / run_of(done).name).mkdir()
    lock = Lock(tmp_path / "runs" / "helmholtz" / run_of(done).name)
    try:
        records, said = go([JOB, Job("helmholtz", "spinn", 5, (0,), train=False)], tmp_path)
    finally:
        lock.release()
    assert [r["points"] for r in records] == [5]
    assert "is writing the run in" in said[1]


@pytest.mark.parametrize("change", [{"box": "Box(x=(0, 1))"}, {"terms": ["residual"]}])
def test_a_row_of_another_equation_does_not_count(folder, change):
    record = read_record(folder / "helmholtz" / "spinn-6.json")
    write_record(folder, record | {"settings": record["settings"] | change})
    assert recorded(JOB, folder) is None
    assert recorded(dataclasses.replace(JOB, train=False), folder) is None


def test_committed_records_are_of_the_equations_and_networks_there_are():
    """Nothing that was measured would be run again."""
    folder = Path(__file__).parents[2] / "results" / "h200" / "rows"
    wrong = []
    for record in collect(folder)[0]:
        steps = None if record["network"].endswith("+lbfgs") else record["steps"]
        train = record["status"] == "done"
        job = Job(
            record["problem"],
            record["network"],
            record["points"],
            tuple(record["seeds"]),
            steps,
            record.get("rank"),
            train,
        )
        if recorded(job, folder) is None:
            wrong.append(job)
    assert not wrong


@pytest.mark.usefixtures("quick")
def test_a_seed_that_diverged_is_named(done, tmp_path, monkeypatch):
    def solve_with_one_gone(*arguments, **options):
        found = solve(*arguments, **options)
        found[1].history.total[2:] = np.nan
        return found

    monkeypatch.setattr("separax.paper.reproduce.running.solve", solve_with_one_gone)
    (record,), _ = go([JOB], tmp_path)
    assert record["note"] == "seed 1 diverged at step 20"
    assert record["relative_l2"] == pytest.approx(
        read_record(done / "helmholtz" / "spinn-6.json")["relative_l2"], rel=1e-5
    )


@pytest.mark.usefixtures("quick")
def test_errors_are_means_over_windows_and_components(tmp_path, monkeypatch):
    small = dataclasses.replace(CATALOGUE["navier-stokes"], windows=2)
    monkeypatch.setitem(CATALOGUE, "navier-stokes", small)
    monkeypatch.setenv("SEPARAX_CACHE", str(tmp_path / "cache"))
    (record,), _ = go([Job("navier-stokes", "spinn-mod", 8, (0,), steps=10, rank=4)], tmp_path)
    kept = json.loads((run_of(tmp_path, "navier-stokes/") / "record.json").read_text())
    assert record["steps"] == 10
    assert len(kept["relative_l2_windows"]) == 2
    assert record["relative_l2"] == [pytest.approx(np.mean(kept["relative_l2_windows"]))]
    (record,), _ = go([Job("navier-stokes-3d", "spinn-mod", 4, (0,), steps=10, rank=2)], tmp_path)
    reproduce_rows(out=tmp_path, show=True)
    text = (tmp_path / "tables.md").read_text()
    assert "## navier-stokes-ranks\n" in text
    assert record["relative_l2"][0] != pytest.approx(
        json.loads((run_of(tmp_path, "navier-stokes-3d/") / "record.json").read_text())[
            "relative_l2"
        ],
        rel=1e-3,
    )


# --- memory ---------------------------------------------------------------------------------------


def test_too_little_memory_skips_a_row_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.paper.reproduce.running.available", lambda: 1_000)
    jobs = [Job("helmholtz", "spinn", n, (0,), steps=40) for n in (256, 6)]
    (large, small), said = go(jobs, tmp_path)
    assert large["status"] == small["status"] == "skipped"
    assert "256 × 256 × 256 points would need about" in large["note"]
    assert "1 kB are free" in large["note"]
    assert large["relative_l2"] is None
    assert "skipped: a step on 256 × 256 × 256" in " ".join(said)
    assert read_record(jobs[0].path(tmp_path))["note"] == large["note"]
    rows = compare("helmholtz", collect(tmp_path)[0])
    (row,) = [r for r in rows if (r.network, r.points) == ("spinn", 256)]
    assert row.notes.startswith("skipped: a step on 256 × 256 × 256")
    assert "| skipped: a step on 256 × 256 × 256" in documents({"helmholtz": rows}, [])["helmholtz"]
    assert recorded(jobs[0], tmp_path) is None  # tried again when there is more


@pytest.mark.usefixtures("quick")
def test_seeds_are_trained_in_groups_where_memory_is_short(done, tmp_path, monkeypatch):
    problem, recipe = JOB.make()
    with jax.enable_x64(True):
        needed = Trainer(Loss(problem, recipe)).predicted_bytes()
    monkeypatch.setattr("separax.paper.reproduce.running.available", lambda: int(1.9 * needed))
    (record,), _ = go([JOB], tmp_path)
    assert (record["status"], record["note"], record["seeds"]) == (
        "done",
        "1 seed at a time",
        [0, 1],
    )
    together = read_record(done / "helmholtz" / "spinn-6.json")
    assert record["relative_l2"] == pytest.approx(together["relative_l2"], rel=1e-3)
    assert record["loss"] == pytest.approx(together["loss"], rel=1e-3)
    assert np.shape(record["curve"]["loss"]) == (len(record["curve"]["steps"]), 2)
    groups = sorted((tmp_path / "runs" / "helmholtz").iterdir())
    assert sorted(read_settings(g)["seeds"] for g in groups) == [[0], [1]]
    spent = [json.loads((g / "record.json").read_text())["train_seconds"] for g in groups]
    assert record["train_seconds"] == pytest.approx(sum(spent))
    # with more memory they are gone on with as they were begun
    monkeypatch.setattr("separax.paper.reproduce.running.available", lambda: None)
    (tmp_path / "helmholtz" / "spinn-6.json").unlink()
    assert go([JOB], tmp_path)[0][0]["note"] == "1 seed at a time"
    assert sorted((tmp_path / "runs" / "helmholtz").iterdir()) == groups


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (MemoryPrediction("a training step would need about 9 GB"), "would need about 9 GB"),
        (
            jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.\nmore"
            ),
            "out of memory: RESOURCE",
        ),
        (Diverged("the loss stopped being finite at step 3"), "diverged: the loss stopped"),
    ],
    ids=["predicted", "met", "diverged"],
)
def test_a_run_that_fails_is_recorded_as_such_and_others_go_on(
    tmp_path, monkeypatch, trouble, words
):
    def fail(*_, **__):
        raise trouble

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)
    records, _ = go([JOB, Job("helmholtz", "spinn", 5, (0,), steps=40)], tmp_path)
    assert [(r["status"], r["ms_per_step"]) for r in records] == [("timed", 0.5)] * 2
    assert words in read_record(JOB.path(tmp_path))["note"]
    assert recorded(JOB, tmp_path) is None


@pytest.mark.usefixtures("quick", "untrained")
def test_a_baseline_may_be_timed_alone(tmp_path):
    timed = Job("helmholtz", "pinn", 6, (0, 1, 2), train=False)
    (record,), _ = go([timed], tmp_path)
    assert (record["status"], record["ms_per_step"], record["relative_l2"]) == ("timed", 0.5, None)
    assert recorded(timed, tmp_path) == read_record(timed.path(tmp_path))
    assert recorded(Job("helmholtz", "pinn", 6, (0,)), tmp_path) is None  # training is more


# --- interruption, files and the command line -----------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def plain(text):
    return " ".join(text.split())


@pytest.mark.usefixtures("quick")
def test_an_interrupted_row_goes_on_and_ends_where_an_uninterrupted_one_does(tmp_path, monkeypatch):
    row = ["helmholtz", "--networks", "spinn", "--points", 5, "--steps", 1500, "--seeds", 2]

    def interrupted(*arguments, **options):
        return solve(*arguments, **options, callback=lambda **_: signal.raise_signal(signal.SIGINT))

    with monkeypatch.context() as patch:
        patch.setattr("separax.paper.reproduce.running.solve", interrupted)
        stopped = command(*row, "--out", tmp_path / "cut")
    assert stopped.exit_code == 130, stopped.stderr
    assert "stopped at step" in plain(stopped.stderr)
    assert "the same command goes on from there" in plain(stopped.stderr)
    assert "not run" in stopped.stdout
    assert collect(tmp_path / "cut") == ([], [])
    first = json.loads((run_of(tmp_path / "cut", "helmholtz/") / "record.json").read_text())
    assert 0 < first["steps"] < 1500
    begun = run_of(tmp_path / "cut", "helmholtz/")
    after, whole = (command(*row, "--out", tmp_path / name) for name in ("cut", "whole"))
    assert after.exit_code == whole.exit_code == 0, after.stderr
    one, other = (
        read_record(tmp_path / name / "helmholtz" / "spinn-5.json") for name in ("cut", "whole")
    )
    for name in ("relative_l2", "rmse", "loss", "best_step", "steps"):
        assert one[name] == other[name]
    assert one["train_seconds"] > first["train_seconds"]  # of both parts
    assert run_of(tmp_path / "cut", "helmholtz/") == begun  # gone on with, not begun anew


def test_tables_are_written(folder):
    record = read_record(folder / "helmholtz" / "spinn-6.json")
    for rank in (2, 4):
        write_record(folder, record | {"rank": rank})
    (folder / "helmholtz" / "spinn-7.json").write_text("{")
    said = []
    tables, stopped = reproduce_rows(["helmholtz"], out=folder, show=True, say=said.append)
    assert ([table.title for table in tables], stopped) == (["helmholtz", "summary"], False)
    assert "spinn-7.json is cut short" in said[0]
    names = ("tables.md", "figures/results.png", "figures/rank.png")
    assert said[1].endswith(", ".join(str(folder / name) for name in names))
    assert all((folder / name).exists() for name in names)
    text = (folder / "tables.md").read_text()
    for name in (*CATALOGUE, "summary"):
        assert f"## {name}\n" in text


def test_show_runs_nothing(folder):
    done = command("helmholtz", "--show", "--out", folder)
    assert done.exit_code == 0, done.stderr
    assert "6³" in done.stdout
    assert "2 seeds of 7; 40 steps of 50,000" in plain(done.stdout)
    assert "0.0592" in done.stdout  # published, spinn at 64³
    empty = command("--show", "--out", folder / "empty")
    assert empty.exit_code == 0
    assert "poisson-lshape" in empty.stdout
