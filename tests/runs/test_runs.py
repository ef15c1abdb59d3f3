"""The folder of a run: what it holds, what becomes of it when it is damaged, full or taken, and
what is read from it."""

import errno
import json
import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.runs import files
from separax.runs.describing import sampled_shape, samples, to_data
from separax.runs.folder import FORMAT, Run, read_settings
from separax.runs.keeping import check
from separax.runs.states import NAMES, Saver, States
from separax.solving import trained
from separax.training import session

TINY = sx.SPINN(rank=3, width=6, depth=1)
T, X = np.linspace(0, 1, 5), np.linspace(0, 2, 6)


def exact(t, x):
    return jnp.exp(-t) * jnp.sin(jnp.pi * x)


def heat(**options):
    options = {"derived": {"flux": lambda u: 1.5 - 2 * u.x, "energy": lambda u: u**2}} | options
    conditions = [sx.Initial(exact), sx.Dirichlet(0, hard=True)]
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2)),
        lambda u: u.t - u.xx / jnp.pi**2,
        conditions,
        name="heat",
        **options,
    )


def recipe(**options):
    return sx.Recipe(**{"network": TINY, "points": 6, "steps": 300} | options)


def steady(step):
    return 1e-3


def solve(folder, problem=None, how=None, **options):
    return sx.solve(problem or heat(), how or recipe(), out=folder, progress=False, **options)


@pytest.fixture(scope="module")
def often():
    """Every launch is as short as it gets, and saved before the next one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("separax.solving.trained.SAVE_SECONDS", -1.0)
        patch.setattr("separax.training.session.LAUNCH_SECONDS", 0.0)
        patch.setattr(Saver, "start", Saver.do)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory, often):
    """A solution and its folder."""
    folder = tmp_path_factory.mktemp("runs") / "made"
    return solve(folder), folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy that may be damaged."""
    return Path(shutil.copytree(made[1], tmp_path / "run"))


def content(found):
    about, arrays = to_data(found)
    return about, {name: leaf.tobytes() for name, leaf in arrays.items()}


# --- files ----------------------------------------------------------------------------------------


def test_archives_are_numpys_and_every_byte_is_checked(tmp_path):
    path, arrays = (
        tmp_path / "a.npz",
        {"x": np.arange(5.0), "deep.name": np.ones((2, 3), np.float32)},
    )
    files.write(path, files.npz({"kind": "test", "n": 1}, arrays))
    with np.load(path, allow_pickle=False) as found:
        np.testing.assert_array_equal(found["deep.name"], arrays["deep.name"])
        assert json.loads(str(found["about"])) == {"kind": "test", "n": 1}
    about, back = files.read_npz(path)
    assert about == {"kind": "test", "n": 1}
    assert back.keys() == arrays.keys()
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(files.Damaged):
            files.read_npz(path)
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(files.Damaged):
            files.read_npz(path)


# --- what a run holds -----------------------------------------------------------------------------


def test_every_file_names_its_run(made):
    solution, folder = made
    kept = read_settings(folder)
    assert (kept["format"], kept["problem"], kept["steps"], kept["seeds"]) == (
        FORMAT,
        "heat",
        300,
        [0],
    )
    environment = files.read_json(folder / "environment.json")
    assert environment["versions"]["jax"]
    assert environment["precision"] == "float32"
    assert {environment["run"], files.read_json(folder / "record.json")["run"]} == {kept["run"]}
    for name in ("solution.npz", "factors.npz", *NAMES):
        assert files.read_npz(folder / name)[0]["run"] == kept["run"]
    assert check(folder) == []
    assert solution.record == files.read_json(folder / "record.json")


# --- loading --------------------------------------------------------------------------------------


def test_a_solution_is_loaded_without_its_problem(made):
    solution, folder = made
    loaded = sx.load(folder)
    ours, theirs = loaded(t=T, x=X), solution(t=T, x=X)
    assert set(ours) == {"u", "flux", "energy"}
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name])
    points = np.stack([T, X[:5]], 1)
    np.testing.assert_array_equal(loaded.at(points)["u"], solution.at(points)["u"])
    np.testing.assert_array_equal(loaded.d(x=2)(t=T, x=X)["u"], solution.d(x=2)(t=T, x=X)["u"])
    residual = lambda u, t: t * u.t - u.xx**2  # noqa: E731
    np.testing.assert_array_equal(loaded.of(residual)(t=T, x=X), solution.of(residual)(t=T, x=X))
    assert loaded.integral(points=5)["u"] == solution.integral(points=5)["u"]
    rule = sx.quadrature(solution.problem.box, 5)
    np.testing.assert_array_equal(
        loaded.separable(rule).values(), solution.separable(rule).values()
    )
    for name in ("steps", "total", "error_steps", "errors"):
        np.testing.assert_array_equal(
            getattr(loaded.history, name), getattr(solution.history, name)
        )
    assert loaded.history.losses.keys() == solution.history.losses.keys()
    assert loaded.record == solution.record
    assert (loaded.timing, loaded.best_step, loaded.best_loss, loaded.seed) == (
        solution.timing,
        solution.best_step,
        solution.best_loss,
        solution.seed,
    )
    assert loaded.recipe == solution.recipe
    on = {"t": T, "x": X}
    assert loaded.relative_l2({"u": exact}, **on) == solution.relative_l2({"u": exact}, **on)
    with pytest.raises(sx.InputError, match=r"loaded from its run.*solution.relative_l2\(exact\)"):
        loaded.relative_l2()
    with pytest.raises(sx.InputError, match="does not keep the functions of the problem"):
        sx.solve(loaded.problem)


def test_a_solution_is_saved_and_loaded(made, tmp_path):
    solution, _ = made
    again = sx.load(sx.load(solution.save(tmp_path / "a")).save(tmp_path / "b"))
    assert content(again)[1] == content(solution)[1]
    assert check(tmp_path / "b") == []
    with pytest.raises(sx.InputError, match="holds a run already"):
        solution.save(tmp_path / "a")


@pytest.mark.whole
def test_seeds_of_a_march_are_loaded(tmp_path):
    found = solve(
        tmp_path / "run",
        heat(derived={}, reference=exact),
        recipe(steps=20),
        seed=[3, 5],
        windows=2,
    )
    loaded = sx.load(tmp_path / "run")
    assert [s.seed for s in loaded] == [3, 5]
    for ours, theirs in zip(loaded, found):
        np.testing.assert_array_equal(ours.edges, theirs.edges)
        for name in ("total", "error_steps", "errors"):
            np.testing.assert_array_equal(
                getattr(ours.history, name), getattr(theirs.history, name)
            )
        assert not ours.interrupted
    np.testing.assert_array_equal(loaded[1](t=T, x=X), found[1](t=T, x=X))
    part = sx.load(tmp_path / "run" / "windows" / "002")
    np.testing.assert_array_equal(part[0](t=T[3:], x=X), found[0].windows[1](t=T[3:], x=X))
    assert check(tmp_path / "run") == []


def test_what_was_found_is_loaded_with_what_depends_on_it(tmp_path):
    """Two seeds with different coefficients: each has the flux of its own."""
    start = [sx.Initial(1.0)]
    how = {"unknowns": {"k": 0.3}, "derived": {"flux": lambda u, k: -k * u.t}}
    problem = sx.Problem(sx.Box(t=(0, 1)), lambda u, k: u.t + k * u, start, **how)
    found = solve(tmp_path / "run", problem, recipe(steps=20, precision="float64"), seed=[0, 1])
    assert found[0].unknowns["k"] != found[1].unknowns["k"]
    for ours, theirs in zip(sx.load(tmp_path / "run"), found):
        assert ours.unknowns == theirs.unknowns
        np.testing.assert_allclose(ours(t=T)["flux"], theirs(t=T)["flux"], rtol=1e-13)


def test_networks_and_recipes_of_every_kind_are_loaded(tmp_path):
    """A pointwise network, periodic and zero on a face; a schedule of the user's own."""
    box = sx.Box(t=(0, 1), x=(0, 2))
    problem = sx.Problem(
        box, lambda u: u.t - u.xx, [sx.Periodic(), sx.Initial(0, hard=True)], name='<b>"name"</b>'
    )
    how = recipe(
        network=sx.PINN(
            width=6, depth=2, body="mlp", activation="sin", steepness=2.0, frequencies=2
        ),
        steps=10,
        optimiser=sx.Adam(1e-3, steady),
        sampler=sx.GaussLegendre(breaks={"x": 1.0}),
    )
    found = solve(tmp_path / "run", problem, how)
    loaded = sx.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded(t=T, x=X), found(t=T, x=X))
    assert loaded.problem.name == problem.name
    assert loaded.recipe == how
    with pytest.raises(sx.InputError, match="separable"):
        loaded.separable(sx.quadrature(box, 3))
    assert not (tmp_path / "run" / "factors.npz").exists()


@pytest.mark.parametrize(
    "inside",
    [lambda x, y: (x <= 0) | (y <= 0), lambda x, y: x**2 + y**2 - 1],
    ids=["indicator", "signed distance"],
)
def test_shapes_are_kept_by_samples(inside):
    box = sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1))
    problem = sx.Problem(box, lambda u: u.t - u.xx - u.yy, [sx.Dirichlet(0)], inside=inside)
    kept = sampled_shape(box, problem.shape.axes, samples(problem.shape))
    nodes = {"x": jnp.linspace(-1, 1, 33)[:, None], "y": jnp.linspace(-1, 1, 65)}
    np.testing.assert_array_equal(kept.mask(nodes), problem.shape.mask(nodes))
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 20_000))
    ours, true = (
        np.asarray(s.mask({"x": jnp.asarray(x), "y": jnp.asarray(y)}))
        for s in (kept, problem.shape)
    )
    if kept.signed:
        assert np.mean(ours != true) < 1e-3
    else:  # the boundary of the L runs along nodes: nothing is lost
        np.testing.assert_array_equal(ours, true)
    np.testing.assert_array_equal(samples(kept), samples(problem.shape))


# --- damage ---------------------------------------------------------------------------------------


def test_damaged_files_are_found_and_nothing_wrong_comes_out(made, folder, tmp_path, capsys):
    """Some of what benchmarks/corrupt_loop.py does a thousand times."""
    solution, original = made
    expected, draw = content(sx.load(original)), random.Random(0)
    other = solution.save(tmp_path / "other")
    names = sorted(path.name for path in original.iterdir())
    for name in names:
        for way in ("changed", "cut", "emptied", "swapped"):
            data = bytearray((original / name).read_bytes())
            if way == "changed":
                data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
            elif way == "cut":
                del data[draw.randrange(1, len(data)) :]
            else:
                source = other / name if (other / name).exists() else original / "factors.npz"
                data = bytearray(source.read_bytes()) if way == "swapped" else bytearray()
            (folder / name).write_bytes(data)
            if way != "swapped" or name != "history.csv":  # the other run's history is the same
                assert check(folder), (name, way)
            if name in ("settings.json", "solution.npz"):
                with pytest.raises(sx.InputError, match=r"settings\.json|solution\.npz"):
                    sx.load(folder)
            else:
                assert content(sx.load(folder)) == expected, (name, way)
            (folder / name).write_bytes((original / name).read_bytes())
    assert check(folder) == []


@pytest.mark.usefixtures("often")
def test_a_damaged_state_is_replaced_by_the_one_before(made, folder, capsys):
    newest = max(NAMES, key=lambda name: files.read_npz(folder / name)[0]["number"])
    (folder / newest).write_bytes((folder / newest).read_bytes()[:-100])
    (folder / "solution.npz").unlink()
    again = solve(folder, resume=True)
    said = capsys.readouterr().err
    assert newest in said
    assert "the other state, of step 300, is used" in said
    assert content(again)[1] == content(made[0])[1]
    assert check(folder) != []  # what is damaged stays until it is its turn
    for name in NAMES:
        (folder / name).write_bytes(b"")
    again = solve(folder, resume=True)
    said = capsys.readouterr().err
    assert "starts again from the beginning" in said
    assert "solution.npz.old" in said
    assert content(again)[1] == content(made[0])[1]
    assert check(folder) == [] or {d.path.name for d in check(folder)} <= {"solution.npz.old"}


@pytest.mark.usefixtures("often")
def test_damaged_settings_are_written_anew_from_the_state(made, folder, capsys):
    before = read_settings(folder)
    (folder / "settings.json").write_text('{"format": 3}')
    with pytest.raises(files.Damaged, match=r"settings.json has no checksum"):
        sx.load(folder)
    solve(folder, resume=True)
    assert "written anew, as the state has it" in capsys.readouterr().err
    assert read_settings(folder) == before
    (folder / "settings.json").unlink()
    with pytest.raises(sx.InputError, match=r"was run with steps = 300, not 200"):
        solve(folder, how=recipe(steps=200), resume=True)


def test_runs_of_another_version_are_refused_by_name(folder):
    kept = read_settings(folder)
    files.write(folder / "settings.json", files.sealed_json(kept | {"format": 4, "separax": "9.1"}))
    for use in (lambda: sx.load(folder), lambda: solve(folder, resume=True)):
        with pytest.raises(
            sx.InputError, match=r"format 4, written by separax 9.1; this version reads format 3"
        ):
            use()
    (folder / "settings.json").rename(folder / "settings.toml")
    with pytest.raises(sx.InputError, match=r"format 1 .*of an earlier version"):
        sx.load(folder)


def test_what_is_no_run_is_named(tmp_path, made):
    with pytest.raises(sx.InputError, match="is not a folder"):
        sx.load(tmp_path / "nothing")
    with pytest.raises(sx.InputError, match="there is no run"):
        sx.load(tmp_path)
    with Run(tmp_path / "begun", read_settings(made[1])):
        pass
    with pytest.raises(sx.InputError, match="has no solution yet"):
        sx.load(tmp_path / "begun")
    with pytest.raises(sx.InputError, match=r"check: .*nothing is no folder of a run"):
        check(tmp_path / "nothing")


# --- one writer, room to write --------------------------------------------------------------------


def test_a_second_writer_is_refused(tmp_path):
    asked = {"precision": "float32", "seeds": [0]}
    with (
        Run(tmp_path, asked),
        pytest.raises(sx.InputError, match=f"process {os.getpid()} is writing"),
    ):
        Run(tmp_path, asked, resume=True)
    Run(tmp_path, asked, resume=True).close()
    assert not (tmp_path / ".lock").exists()


def hold(folder, ready):
    Run(folder, {"precision": "float32", "seeds": [0]}, resume=True)
    (folder / ".draft of nobody.draft").write_text("half of a file")
    ready.set()
    time.sleep(600)


@pytest.mark.whole
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(sx.InputError, match=f"process {process.pid} is writing"):
        Run(tmp_path, {"precision": "float32", "seeds": [0]}, resume=True)
    process.kill()
    process.join()
    assert (tmp_path / ".lock").exists()
    Run(tmp_path, {"precision": "float32", "seeds": [0]}, resume=True).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["environment.json", "settings.json"]


def full(monkeypatch, *names):
    write = files.write

    def fails(path, content):
        if path.name in names:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    for room in ("folder", "states", "keeping"):
        monkeypatch.setattr(f"separax.runs.{room}.write", fails)


@pytest.mark.usefixtures("often")
def test_a_full_disk_stops_nobody(made, tmp_path, monkeypatch, capsys):
    def stop(step, **_):
        if step == 200:
            full(monkeypatch, *NAMES)

    found = solve(tmp_path, callback=stop)
    said = capsys.readouterr().err
    assert said.count("No space left on device") == 2
    assert "the run goes on" in said
    assert "is not kept" in said
    assert content(found)[1] == content(made[0])[1]
    monkeypatch.undo()
    about, _ = States(tmp_path, None).newest()
    assert about["step"] == 100  # saved before the disk was full, and still good
    assert content(solve(tmp_path, resume=True))[1] == content(found)[1]


@pytest.mark.usefixtures("often")
def test_a_solution_outlives_whatever_goes_wrong_while_it_is_kept(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise TypeError("cannot be written as text")

    for room in ("folder", "states"):
        monkeypatch.setattr(f"separax.runs.{room}.npz", fails)
    found = solve(tmp_path / "run", how=recipe(steps=10))
    assert np.all(np.isfinite(found(t=T, x=X)["u"]))
    said = capsys.readouterr().err
    assert "the run goes on" in said
    assert "TypeError: cannot be written as text" in said
    assert "solution.save(folder)" in said


def test_a_folder_that_cannot_be_written_is_refused_before_anything_compiles(folder, monkeypatch):
    def read_only(path, flags, *mode, **options):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return os_open(path, flags, *mode, **options)

    os_open = os.open
    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr("separax.solving.trained.Session", None)
    with pytest.raises(sx.InputError, match=r"out: cannot write to .* \(Read-only file system\)"):
        solve(folder, resume=True)


# --- killed ---------------------------------------------------------------------------------------


def doomed(folder):
    trained.SAVE_SECONDS, session.LAUNCH_SECONDS = -1.0, 0.0

    def die(step, **_):
        if step == 200:
            while not (
                folder / NAMES[0]
            ).exists():  # on a busy machine the first save takes its time
                time.sleep(0.01)
            os.kill(os.getpid(), 9)

    solve(folder, callback=die)


@pytest.mark.whole
def test_a_killed_run_is_resumed_bit_for_bit(made, tmp_path, capsys):
    """Killed while the second state is perhaps still being written; benchmarks/kill_loop.py does it
    200 times, anywhere."""
    process = multiprocessing.get_context("forkserver").Process(
        target=doomed, args=(tmp_path / "run",)
    )
    process.start()
    process.join()
    assert process.exitcode == -9
    about, _ = States(tmp_path / "run", None).newest()
    assert about["step"] in (100, 200)
    sx.load(tmp_path / "run")
    assert "has not ended" in capsys.readouterr().err
    assert content(solve(tmp_path / "run", resume=True))[1] == content(made[0])[1]
