"""Solutions in the files of other tools, read back by those tools."""

import csv
import xml.etree.ElementTree as ElementTree

import h5netcdf
import numpy as np
import pytest
import xarray
from matplotlib.axes import Axes
from matplotlib.image import imread
from PIL import Image
from typer.testing import CliRunner
from untrained import untrained_march

import separax as sx
from separax.cli.app import app
from separax.output import animation
from separax.output.writers import pieces

T, X, Y = np.linspace(0, 1, 5), np.linspace(-1, 1, 6), np.linspace(0, 2, 7)
ON = {"t": T, "x": X, "y": Y}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two fields over t, x and y, in two windows of time."""
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(0, 2)),
        lambda u, v: {"a": u.t - v.x, "b": v.t - u.yy},
        [sx.Initial(lambda x, y: x * y, of=lambda u: u), sx.Initial(0, of=lambda v: v)],
        fields=("u", "v"),
        name="pair",
    )
    folder = tmp_path_factory.mktemp("exports") / "run"
    how = sx.Recipe(sx.SPINN(rank=3, width=6, depth=1), points=4, steps=10)
    return untrained_march(problem, how, windows=2).save(folder)


@pytest.fixture(scope="module")
def solution(run):
    return sx.load(run)


@pytest.fixture(params=["whole", "in pieces"])
def cut(request, monkeypatch):
    """Also in pieces of a few points, along more than one axis."""
    if request.param == "in pieces":
        monkeypatch.setattr("separax.core.tuning.POINTS_AT_ONCE", {True: 10, False: 10})


def close(found, solution, name, **coordinates):
    true = np.asarray(solution(**coordinates)[name])
    assert np.shape(found) == true.shape
    np.testing.assert_allclose(found, true, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("lengths", "most"), [((4, 5, 6), 10), ((4, 5, 6), 70), ((3,), 2), ((2, 2), 1), ((), 5)]
)
def test_pieces_follow_each_other_and_cover_everything(lengths, most):
    array = np.arange(np.prod(lengths, dtype=int)).reshape(lengths)
    parts = [array[place] for place in pieces(lengths, most)]
    assert all(part.size <= most for part in parts)
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in parts]), array.ravel())


@pytest.mark.usefixtures("cut")
def test_netcdf_is_read_by_xarray(solution, tmp_path):
    path = solution.export(tmp_path / "out.nc", units={"x": "m", "u": "K"}, **ON)
    with xarray.open_dataset(path, engine="h5netcdf") as found:
        assert found["u"].dims == ("t", "x", "y")
        assert found["u"].dtype == np.float32
        assert (found["x"].attrs["units"], found["u"].attrs["units"]) == ("m", "K")
        assert found.attrs["title"] == "pair"
        np.testing.assert_array_equal(found["y"], Y)
        for name in "uv":
            close(found[name], solution, name, **ON)


def test_xarray(solution):
    found = solution.to_xarray(t=T, x=0.5, points=4, units={"t": "s"})
    assert dict(found.sizes) == {"t": 5, "y": 4}
    assert float(found["x"]) == 0.5
    assert found["t"].attrs == {"units": "s"}
    close(found["v"], solution, "v", t=T, x=0.5, y=np.linspace(0, 2, 4))
    slope = solution.d(x=1).to_xarray(**ON)
    np.testing.assert_allclose(slope["u"], solution.d(x=1)(**ON)["u"], rtol=1e-6)
    assert "value" in solution.of(lambda u, v: u * v).to_xarray(**ON)


@pytest.mark.usefixtures("cut")
def test_numpys_files(solution, tmp_path):
    with np.load(solution.export(tmp_path / "out.npz", **ON), allow_pickle=False) as found:
        np.testing.assert_array_equal(found["x"], X)
        for name in "uv":
            close(found[name], solution, name, **ON)


def grid_of(path):
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOXML import vtkXMLRectilinearGridReader

    reader = vtkXMLRectilinearGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    found = reader.GetOutput()
    axes = [
        vtk_to_numpy(found.GetXCoordinates()),
        vtk_to_numpy(found.GetYCoordinates()),
        vtk_to_numpy(found.GetZCoordinates()),
    ]
    data = found.GetPointData()
    arrays = {
        data.GetArrayName(i): vtk_to_numpy(data.GetArray(i))
        for i in range(data.GetNumberOfArrays())
    }
    return axes, {
        name: values.reshape([len(a) for a in axes], order="F") for name, values in arrays.items()
    }


@pytest.mark.usefixtures("cut")
def test_vtk_is_read_by_vtk(solution, tmp_path):
    pytest.importorskip("vtkmodules")
    axes, found = grid_of(solution.export(tmp_path / "out.vtr", **ON))
    for ours, true in zip(axes, (T, X, Y)):
        np.testing.assert_array_equal(ours, true)
    for name in "uv":
        close(found[name], solution, name, **ON)
    axes, found = grid_of(solution.export(tmp_path / "line.vtr", t=0.5, x=X, y=1.0))
    assert [len(a) for a in axes] == [6, 1, 1]
    close(found["u"][:, 0, 0], solution, "u", t=0.5, x=X, y=1.0)


def test_a_series_in_time_is_read_by_vtk(solution, tmp_path):
    pytest.importorskip("vtkmodules")
    entries = list(ElementTree.parse(solution.export(tmp_path / "out.pvd", **ON)).iter("DataSet"))
    assert [float(entry.get("timestep")) for entry in entries] == list(T)
    _, found = grid_of(tmp_path / entries[3].get("file"))
    close(found["v"][:, :, 0], solution, "v", t=T[3], x=X, y=Y)


@pytest.mark.usefixtures("cut")
def test_tables(solution, tmp_path):
    with open(solution.export(tmp_path / "line.csv", t=0.25, x=X, y=1.0)) as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["t", "x", "y", "u", "v"]
    assert [float(row["x"]) for row in rows] == list(X)
    close([float(row["u"]) for row in rows], solution, "u", t=0.25, x=X, y=1.0)
    points = np.random.default_rng(0).uniform([0, -1, 0], [1, 1, 2], (9, 3))
    with open(solution.export(tmp_path / "points.csv", at=points, field="v")) as file:
        table = np.array(list(csv.reader(file))[1:], float)
    np.testing.assert_array_equal(table[:, :3], points)
    np.testing.assert_allclose(table[:, 3], solution.at(points)["v"], rtol=1e-6)


def test_the_command(run, solution, tmp_path):
    def export(*arguments):
        return CliRunner().invoke(app, ["export", str(run), *arguments])

    done = export(
        "--to",
        str(tmp_path / "o.nc"),
        "--axis",
        "x=-1,1,6",
        "--axis",
        "t=0.5",
        "--points",
        "7",
        "--field",
        "u",
    )
    assert done.exit_code == 0, done.stderr
    with h5netcdf.File(tmp_path / "o.nc") as found:
        assert "v" not in found
        close(found["u"][...], solution, "u", t=0.5, x=X, y=Y)
    (tmp_path / "places.csv").write_text("y,name,x,t\n1.0,a,0.5,0.25\n")
    done = export("--to", str(tmp_path / "o.csv"), "--at", str(tmp_path / "places.csv"))
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "o.csv").read_text().splitlines()[1].startswith("0.25,0.5,1.0,")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--to", "o.xlsx"],
            "o.xlsx | .nc (NetCDF) | .vtr | .pvd | .csv | .npz | .png | .svg | .gif",
        ),
        (["--to", "o"], "ending"),
        (["--to", "o.nc", "--field", "w"], "field | 'w' | u, v"),
        (["--to", "o.nc", "--axis", "z=0,1,5"], "axis | 'z'"),
        (["--to", "o.nc", "--axis", "x=0,1,2,3"], "--axis | x=0,1,256"),
        (["--to", "o.nc", "--axis", "x"], "--axis | y=0,1,256"),
        (["--to", "o.nc", "--axis", "x=0,9,5"], "x runs over (-1, 1)"),
        (["--to", "o.nc", "--points", "0"], "points | at least 1"),
        (["--to", "o.nc", "--units", "q=m"], "units | 'q'"),
        (["--to", "o.nc", "--seed", "4"], "seed | 4"),
        (["--to", "o.pvd", "--axis", "t=0.5"], "several instants"),
        (["--to", "nowhere/o.nc"], "no folder nowhere"),
        (["--to", "o.nc", "--at", "nothing.csv"], "cannot read nothing.csv"),
        (["--to", "o.csv", "--at", "bad.csv"], "bad.csv | t, x, y"),
        (["--to", "o.csv", "--at", "t=0.5"], "--at | --axis t=0.5"),
        (["--to", "o.png", "--at", "bad.csv"], "--at | 'bad.csv' | --at t=0.5"),
        (["--to", "o.png", "--at", "t=now"], "--at | 't=now' | --at t=0.5"),
        (["--to", "o.png", "--at", "z=1"], "no axis 'z'"),
        (["--to", "o.png", "--at", "t=3"], "t runs over (0, 1)"),
        (["--to", "o.png", "--axis", "t=0.5,1"], "--axis | --at t=0.5"),
        (["--to", "o.png", "--show", "x,y,t"], "--show | one or two axes"),
        (["--to", "o.png", "--units", "x=m"], "units | o.nc"),
        (["--to", "o.png", "--field", "w"], "'w' | u, v"),
        (["--to", "o.png", "--points", "0"], "points | at least 2"),
        (["--to", "o.png", "--frames", "3"], "--frames | o.gif"),
        (["--to", "o.nc", "--show", "x"], "--show | o.png"),
        (["--to", "o.gif", "--at", "t=0.5"], "t moves and is held | over="),
        (["--to", "nowhere/o.png"], "no folder nowhere"),
    ],
)
def test_bad_input_is_named(run, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("t,x\n1,2\n")
    done = CliRunner().invoke(app, ["export", str(run), *options])
    assert done.exit_code == 2, done.output
    said = " ".join(done.stderr.split())
    for word in words.split(" | "):
        assert word in said
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


# --- pictures -------------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch):
    """The values of every image that goes into a figure."""
    seen = []

    def note(panel, values, **options):
        seen.append(np.array(values))
        return imshow(panel, values, **options)

    imshow = Axes.imshow
    monkeypatch.setattr(Axes, "imshow", note)
    return seen


def picture(run, to, *options):
    done = CliRunner().invoke(app, ["export", str(run), "--to", str(to), *options])
    assert done.exit_code == 0, done.stderr
    return to


def test_a_picture_is_of_the_places_that_were_asked_for(run, solution, tmp_path, drawn):
    path = picture(
        run,
        tmp_path / "o.png",
        "--at",
        "t=0.25,0.5",
        "--field",
        "v",
        "--points",
        "9",
        "--show",
        "y,x",
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    assert imread(path).std() > 0.01  # something is on it
    assert len(drawn) == 2
    for values, t in zip(drawn, (0.25, 0.5)):
        close(values, solution, "v", t=t, x=np.linspace(-1, 1, 9), y=np.linspace(0, 2, 9))


def test_a_picture_of_lines_and_words(run, tmp_path):
    tree = ElementTree.parse(
        picture(run, tmp_path / "o.svg", "--show", "x", "--at", "t=0,1", "--at", "y=0.5")
    )
    assert tree.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    text = "".join(tree.getroot().itertext())
    assert "t = 0, y = 0.5" in text
    assert "t = 1, y = 0.5" in text


@pytest.mark.parametrize(("options", "moves"), [([], "t"), (["--over", "y", "--at", "t=1"], "y")])
def test_a_film_has_its_frames(run, tmp_path, monkeypatch, options, moves):
    seen = []
    values = animation.values_on
    monkeypatch.setattr(
        "separax.output.animation.values_on", lambda *given: seen.append(given) or values(*given)
    )
    path = picture(
        run,
        tmp_path / "o.gif",
        "--frames",
        "3",
        "--rate",
        "5",
        "--points",
        "8",
        "--show",
        "x",
        *options,
    )
    with Image.open(path) as film:
        assert (film.format, film.n_frames, film.info["duration"]) == ("GIF", 3, 200)
    ((_, field, at, order),) = seen
    assert (field, order, len(at[moves])) == ("u", (moves, "x"), 3)
