"""Running the paper's rows: what is recorded, what is skipped, and what an interrupted run
leaves."""

import csv
import dataclasses
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from typer.testing import CliRunner
from untrained import untrained as random_solution

from separax.cli.app import app
from separax.core import data_to_part
from separax.core.errors import Diverged, MemoryPrediction
from separax.networks.architectures import SPINN
from separax.paper.catalogue import CATALOGUE
from separax.paper.catalogue.navier_stokes_3d import velocity
from separax.paper.reproduce import figures as flows
from separax.paper.reproduce import running
from separax.paper.reproduce.plan import Job
from separax.paper.reproduce.records import collect, read_record, recorded, write_record
from separax.paper.reproduce.rows import compare
from separax.paper.reproduce.running import Stopped, run_all
from separax.paper.reproduce.showing import log_command, reproduce_rows
from separax.paper.reproduce.tables import documents
from separax.residuals.loss import Loss
from separax.runs.files import Damaged
from separax.runs.folder import read_settings
from separax.runs.loading import load
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


@pytest.fixture
def untrained(monkeypatch):
    """Fails if anything is trained."""

    def fail(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)


def go(jobs, folder):
    """The records, and what was said."""
    said = []
    return run_all(jobs, folder, "separax reproduce", said.append, False), said


def run_of(folder, start="helmholtz/spinn-6-"):
    """The folder of the only run whose name begins so."""
    (found,) = (folder / "runs").glob(f"{start}*")
    return found


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
def test_a_quick_try_takes_no_place_of_a_longer_run(folder):
    path = folder / "helmholtz" / "spinn-6.json"
    old, other = path.read_bytes(), Job("helmholtz", "spinn", 6, (5,), steps=10)
    (quick,), said = go([other], folder)
    assert (quick["status"], quick["seeds"]) == ("done", [5])
    assert path.read_bytes() == old
    assert "stands, it goes further" in said[-1]
    assert [p.name for p in path.parent.iterdir()] == ["spinn-6.json"]


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
def test_failing_again_and_again_leaves_one_record(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise Diverged("no numbers")

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)
    for _ in range(3):
        go([JOB], tmp_path)
    assert [p.name for p in (tmp_path / "helmholtz").iterdir()] == ["spinn-6.json"]


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


@pytest.mark.usefixtures("quick")
def test_damaged_settings_of_a_run_lose_nothing(folder, monkeypatch, capsys):
    (folder / "helmholtz" / "spinn-6.json").unlink()
    settings = run_of(folder) / "settings.json"
    settings.write_bytes(settings.read_bytes() + b" ")
    state = (run_of(folder) / "state.a.npz").read_bytes()
    (record,), _ = go([JOB], folder)
    assert (run_of(folder) / "state.a.npz").read_bytes() == state  # gone on with, not begun anew
    assert record["status"] == "done"
    assert "written anew, as the state has it" in " ".join(capsys.readouterr().err.split())


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
def test_an_error_that_is_no_number_stops_no_other_row(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "separax.paper.reproduce.running.paper_errors",
        lambda solution: (np.nan, np.nan) if solution.seed else (0.1, 0.1),
    )
    jobs = [JOB, dataclasses.replace(JOB, seeds=(0,))]
    records, said = go(jobs, tmp_path)
    assert [r["status"] for r in records] == ["timed", "done"]
    assert "no finite error: seed 1" in records[0]["note"]
    assert any("no finite error: seed 1" in line for line in said)


@pytest.mark.usefixtures("quick")
def test_a_row_that_is_stopped_while_it_is_drawn_goes_on_there(tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    job = Job("helmholtz", "spinn", 6, (0,), steps=20)
    with monkeypatch.context() as patch:
        patch.setattr("separax.paper.reproduce.running.draw", stopped)
        with pytest.raises(Stopped, match="stopped at once"):
            go([job], tmp_path)
    assert collect(tmp_path) == ([], [])
    state, drawings = (run_of(tmp_path) / "state.a.npz").read_bytes(), []
    monkeypatch.setattr("separax.paper.reproduce.running.draw", lambda *_: drawings.append(1))
    (record,), _ = go([job], tmp_path)
    assert (record["status"], drawings) == ("done", [1])
    assert (run_of(tmp_path) / "state.a.npz").read_bytes() == state  # nothing trained again


@pytest.mark.usefixtures("quick")
def test_a_picture_is_drawn_beside_the_records(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.paper.reproduce.figures.DPI", 40)
    go([Job("poisson-lshape", "spinn-mod", 8, (0,), steps=5)], tmp_path)
    assert [p.name for p in (tmp_path / "figures").iterdir()] == ["poisson-lshape-spinn-mod-8.png"]


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
    # the flow itself, asked at an instant; the error at the start of the first window
    over = record["over_time"]
    solution = load(run_of(tmp_path, "navier-stokes/"))[0]
    space = dict.fromkeys("xy", np.linspace(0, 2 * np.pi, 128))
    true = {"w": CATALOGUE["navier-stokes"].problem("paper").reference["w"]}
    assert over["t"][::20] == pytest.approx([0, 0.5, 1])
    assert over["relative_l2"][20] == [
        pytest.approx(solution.relative_l2(true, "w", t=[0.5], **space), rel=1e-4)
    ]
    (record,), _ = go([Job("navier-stokes-3d", "spinn-mod", 4, (0,), steps=10, rank=2)], tmp_path)
    reproduce_rows(out=tmp_path, show=True)
    assert (tmp_path / "figures" / "rank.png").exists()
    text = (tmp_path / "tables.md").read_text()
    assert "## navier-stokes-ranks\n" in text
    assert "over-time" not in text  # that is of the rows of the paper, not of studies
    assert record["relative_l2"][0] != pytest.approx(
        json.loads((run_of(tmp_path, "navier-stokes-3d/") / "record.json").read_text())[
            "relative_l2"
        ],
        rel=1e-3,
    )


def test_a_row_of_another_recipe_does_not_count(folder, monkeypatch):
    assert recorded(JOB, folder) is not None
    entry = CATALOGUE["helmholtz"]

    def deeper(name, network):
        recipe = entry.recipe(name, network)
        return dataclasses.replace(
            recipe, network=dataclasses.replace(recipe.network, depth=recipe.network.depth + 1)
        )

    monkeypatch.setitem(CATALOGUE, "helmholtz", dataclasses.replace(entry, recipe=deeper))
    assert recorded(JOB, folder) is None
    assert recorded(dataclasses.replace(JOB, train=False), folder) is None  # its step takes longer


def test_every_command_is_listed_with_its_time(tmp_path):
    for seconds in (3.4, 61.0):
        log_command(tmp_path, "separax reproduce helmholtz, klein-gordon", seconds)
    with open(tmp_path / "commands.csv", "ab") as file:
        file.write(b"\xff\n")  # whatever is in it is nobody's trouble
    log_command(tmp_path, "separax reproduce helmholtz, klein-gordon", 7)
    (tmp_path / "commands.csv").write_bytes(
        (tmp_path / "commands.csv").read_bytes().replace(b"\xff\n", b"")
    )
    with open(tmp_path / "commands.csv") as file:
        lines = list(csv.DictReader(file))
    assert [line["seconds"] for line in lines] == ["3", "61", "7"]
    assert {line["command"] for line in lines} == {"separax reproduce helmholtz, klein-gordon"}


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("untrained")
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


@pytest.mark.parametrize(
    ("problem", "network", "points", "filled"),
    [
        ("klein-gordon-3d", "pinn-mod", 16, True),
        ("klein-gordon", "pinn-mod", 16, False),
        ("klein-gordon", "spinn", 256, False),
    ],
)
def test_a_large_pointwise_network_fills_a_device_by_itself(problem, network, points, filled):
    job = Job(problem, network, points, (0, 1, 2))
    assert running.fills(job, *job.make()) is filled


@pytest.mark.usefixtures("quick")
def test_where_a_seed_fills_a_device_each_is_trained_and_kept_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.paper.reproduce.running.fills", lambda *_: True)
    (record,), _ = go([JOB], tmp_path)
    assert (record["status"], record["note"], record["seeds"]) == (
        "done",
        "1 seed at a time",
        [0, 1],
    )
    assert sorted(
        read_settings(g)["seeds"] for g in (tmp_path / "runs" / "helmholtz").iterdir()
    ) == [[0], [1]]


def test_times_of_uneven_groups_add_up():
    """Seven seeds, three at once: 10 + 12 + 5 seconds, however many seeds shared them."""

    def group(seeds, seconds):
        history = SimpleNamespace(
            error_steps=np.array([10, 20]),
            errors=np.ones(2),
            steps=np.arange(20),
            total=np.ones(20),
        )
        timing = SimpleNamespace(train_seconds=seconds, compile_seconds=seconds / 10, steps=1000)
        one = {
            "history": history,
            "best_loss": 0.5,
            "best_step": 20,
            "memory_bytes": int(1e6 * seeds),
            "errors": lambda: (0.5, 0.2),
            "is_marched": False,
            "problem": SimpleNamespace(reference=None),
        }
        return [
            SimpleNamespace(timing=SimpleNamespace(**vars(timing)), **one) for _ in range(seeds)
        ]

    found = running.summary([group(3, 10.0), group(3, 12.0), group(1, 5.0)])
    assert found["train_seconds"] == pytest.approx(27)
    assert found["compile_seconds"] == pytest.approx(2.7)
    assert found["ms_per_step_together"] == pytest.approx(27)
    assert found["memory_together_mb"] == pytest.approx(3)
    assert found["relative_l2"] == [0.5] * 7
    assert found["rmse"] == [0.2] * 7
    assert np.shape(found["curve"]["loss"]) == (2, 7)


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


@pytest.mark.usefixtures("quick")
def test_other_errors_are_not_hidden(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr("separax.paper.reproduce.running.solve", fail)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        go([JOB], tmp_path)


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


@pytest.mark.usefixtures("untrained")
def test_an_interrupt_before_training_stops_the_rows(tmp_path, monkeypatch):
    def step_cost(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("separax.paper.reproduce.running.step_cost", step_cost)
    with pytest.raises(Stopped, match="helmholtz, spinn, 6 points per axis: stopped"):
        go([JOB, JOB], tmp_path)
    done = command("helmholtz", "--networks", "spinn", "--points", 6, "--out", tmp_path)
    assert done.exit_code == 130
    assert "goes on from there" in plain(done.stderr)


def test_tables_and_figures_are_written(folder):
    record = read_record(folder / "helmholtz" / "spinn-6.json")
    for rank in (2, 4):
        write_record(folder, record | {"rank": rank})
    (folder / "helmholtz" / "spinn-7.json").write_text("{")
    said = []
    tables, stopped = reproduce_rows(["helmholtz"], out=folder, show=True, say=said.append)
    assert ([table.title for table in tables], stopped) == (["helmholtz", "summary"], False)
    assert "spinn-7.json is cut short" in said[0]
    files = ["tables.csv", "tables.md", "figures/results.png", "figures/rank.png"]
    assert all((folder / name).stat().st_size > 500 for name in files)
    assert said[1].endswith(", ".join(str(folder / name) for name in files))
    sheet = list(csv.DictReader((folder / "tables.csv").read_text().splitlines()))
    ours = [row for row in sheet if row["status"] == "done"]
    assert len(ours) == 1  # ranks are no rows of the tables
    assert float(ours[0]["relative_l2"]) == pytest.approx(np.mean(record["relative_l2"]))
    assert {row["problem"] for row in sheet} == set(CATALOGUE)
    text = (folder / "tables.md").read_text()
    for name in (*CATALOGUE, "summary"):
        assert f"## {name}\n" in text


@pytest.mark.usefixtures("own_cache")
def test_flows_are_shown_as_in_the_paper(tmp_path, monkeypatch):
    """Untrained networks will do: what is drawn is where, and beside what."""
    monkeypatch.setattr("separax.paper.reproduce.figures.SHOWN", 12)
    monkeypatch.setattr("separax.paper.reproduce.figures.INSTANTS", 3)
    monkeypatch.setattr("separax.paper.reproduce.figures.DPI", 40)
    for name in flows.FLOWS:
        text, how = CATALOGUE[name].make("paper")
        small = dataclasses.replace(
            how, network=SPINN(rank=2, width=4, depth=1, body="mlp"), points=4
        )
        flows.flow_pictures(name, random_solution(text, small), tmp_path, f"{name}-tiny")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "navier-stokes-3d-tiny-velocity.png",
        "navier-stokes-3d-tiny-vorticity.png",
        "navier-stokes-tiny-vorticity.gif",
        "navier-stokes-tiny-vorticity.png",
    ]
    (u, v, w) = flows.components(random_solution(text, small), velocity)
    assert (u.held, v.held) == (w.held, w.held)
    assert u.reference[3, 5] == pytest.approx(
        float(velocity(x=u.axes["x"][3], y=u.axes["y"][5], **u.held)["u"])
    )


@pytest.mark.usefixtures("untrained")
def test_show_runs_nothing(folder):
    done = command("helmholtz", "--show", "--out", folder)
    assert done.exit_code == 0, done.stderr
    assert "6³" in done.stdout
    assert "2 seeds of 7; 40 steps of 50,000" in plain(done.stdout)
    assert "0.0592" in done.stdout  # published, spinn at 64³
    empty = command("--show", "--out", folder / "empty")
    assert empty.exit_code == 0
    assert "poisson-lshape" in empty.stdout


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["helmoltz"], ["problem", "helmoltz", "Did you mean 'helmholtz'"]),
        (["--networks", "spin"], ["networks", "spin", "Did you mean 'spinn'"]),
        (["--baselines", "al"], ["baselines", "Did you mean 'all'"]),
        (["--points", "16,x"], ["points", "whole numbers", "16,x"]),
        (["--points", "-3"], ["points", "-3", "at least 1"]),
        (["--ranks", "0"], ["ranks", "at least 1"]),
        (["--seeds", "0"], ["seeds", "at least 1"]),
        (["--seed", "-1"], ["seed", "at least 0"]),
        (["--steps", "0"], ["steps", "at least 1"]),
        (["flow-mixing", "--networks", "pinn"], ["no row", "flow-mixing"]),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    for word in words:
        assert word in plain(done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("untrained")
def test_a_document_that_cannot_be_filled_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = tmp_path / "page.md"
    document.write_text("<!-- separax:helmoltz -->\n<!-- /separax -->\n")
    for file, words in (
        (document, "Did you mean 'helmholtz'"),
        (tmp_path / "none.md", "cannot be read"),
    ):
        done = command("helmholtz", "--into", file)
        assert done.exit_code == 2
        assert words in plain(done.stderr)
    assert [p.name for p in tmp_path.iterdir()] == ["page.md"]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = command("helmholtz", "--show", "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert "out: cannot write to" in plain(done.stderr)
    assert (tmp_path / "file").read_text() == "mine"
