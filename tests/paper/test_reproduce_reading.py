"""Records of rows, and what is made of them: statistics, tables, figures. All records here are made
up."""

import dataclasses
import io
import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from untrained import untrained

from separax.cli.console import drawn
from separax.core.errors import InputError
from separax.networks import SPINN
from separax.output import save_figure
from separax.paper.catalogue import CATALOGUE
from separax.paper.catalogue.navier_stokes_3d import velocity
from separax.paper.reproduce import figures, tables
from separax.paper.reproduce.figures import error_against_rank, four_columns
from separax.paper.reproduce.plan import published, seeds_of, steps_of
from separax.paper.reproduce.records import collect, read_record, write_record
from separax.paper.reproduce.rows import Summary, compare, interval, summarise
from separax.paper.reproduce.showing import filled
from separax.runs.files import Damaged, seal

PROBLEMS = ("diffusion", "helmholtz", "klein-gordon", "klein-gordon-3d")


def made(
    problem="diffusion",
    network="spinn-mod",
    points=64,
    relative_l2=(0.003, 0.004, 0.005),
    **changes,
):
    """A record that holds."""
    axes, seeds = (4 if problem == "klein-gordon-3d" else 3), len(relative_l2)
    steps = [100, 10_000, 50_000]
    record = {
        "schema": 1,
        "problem": problem,
        "network": network,
        "points": points,
        "axes": axes,
        "recipe": "paper",
        "steps": 50_000,
        "seeds": list(range(seeds)),
        "precision": "float32",
        "relative_l2": list(relative_l2),
        "rmse": [0.1 * e for e in relative_l2],
        "loss": [1e-3] * seeds,
        "best_step": [49_990] * seeds,
        "train_seconds": 30.0,
        "compile_seconds": 5.0,
        "ms_per_step": 0.25,
        "ms_per_step_together": 0.5,
        "memory_mb": 12.5,
        "memory_together_mb": 80.0,
        "curve": {
            "steps": steps,
            "relative_l2": [[e * 50_000 / s for e in relative_l2] for s in steps],
            "loss": [[1.0] * seeds] * 3,
        },
        "status": "done",
        "note": "",
        "settings": {"rate": 1e-3},
        "environment": {
            "time": "2025-01-01T00:00:00+00:00",
            "device": "a device",
            "python": "3.11",
            "versions": {"jax": "0.10"},
        },
        "command": "separax reproduce diffusion",
    }
    return record | changes


def without_errors(status, **changes):
    return made(
        **dict.fromkeys(("rmse", "loss", "best_step", "curve", "train_seconds", "compile_seconds"))
    ) | {"relative_l2": None, "status": status, **changes}


def synthetic(problems=PROBLEMS, seeds=7):
    """Records like those of a full run: a tenth of the time, errors near the published ones, noise
    over seeds."""
    random = np.random.default_rng(0)
    out = []
    for row in (row for problem in problems for row in published(problem)):
        if row.ms_per_step is None:
            continue
        errors = 0.8 * row.relative_l2 * np.exp(0.25 * random.standard_normal(seeds))
        steps = np.linspace(250, 50_000, 200).astype(int)
        falls = np.exp(-steps / 8_000)[:, None] * (1 - errors) + errors * np.exp(
            0.05 * random.standard_normal((200, seeds))
        )
        curve = {"steps": steps.tolist(), "relative_l2": falls.tolist(), "loss": falls.tolist()}
        out.append(
            made(row.problem, row.network, row.points, errors.tolist(), curve=curve)
            | {"ms_per_step": row.ms_per_step / 9, "memory_mb": row.memory_mb / 30}
        )
    return out


def put(folder, *records):
    return [write_record(folder, record) for record in records]


# --- published ------------------------------------------------------------------------------------


def test_published_rows_are_typed_and_complete():
    assert len(published()) == 76
    assert len(published("diffusion")) == 17

    def row(problem, network, points):
        return next(r for r in published(problem) if (r.network, r.points) == (network, points))

    found = row("klein-gordon-3d", "spinn-mod", 64)
    assert (found.axes, found.relative_l2, found.rmse) == (4, 0.0012, 0.0009)
    assert (found.ms_per_step, found.memory_mb) == (10.96, 2172.0)
    found = row("navier-stokes", "spinn-mod", 64)  # 2¹⁸ points in all
    assert (found.window_minutes, found.total_minutes, found.spread) == (9, None, 0.0018)
    assert (seeds_of("navier-stokes"), steps_of("navier-stokes", "spinn-mod")) == (3, 100_000)
    assert published("navier-stokes-3d")[0].total_minutes == 15.33
    for found in published():
        assert 0 < found.relative_l2 < 1
        assert found.source


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "quantile"),  # of Student's t at 70 %, from printed tables
    [(7, 1.134), (2, 1.963), (11, 1.093), (3, 1.386)],
)
def test_interval_has_the_quantiles_of_student(count, quantile):
    values = np.random.default_rng(1).normal(3.0, 2.0, count)
    mean, half = interval(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count)
    assert mean == pytest.approx(sum(values) / count)
    assert half / spread == pytest.approx(quantile, abs=1e-3)


def test_one_value_has_no_interval():
    assert interval([0.5]) == (0.5, None)
    assert interval([0.5, 0.5]) == (0.5, 0.0)


# --- records --------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = made(rank=16, note="über – “words”", settings={"nested": {"2": [1, 2.5, None, True]}})
    (path,) = put(tmp_path, record)
    assert path == tmp_path / "diffusion" / "spinn-mod-64-rank16.json"
    found = read_record(path)
    assert found == seal(record)
    assert {k: v for k, v in found.items() if k != "sha256"} == record
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # no draft is left


RECORD = (
    json.dumps(seal(made(relative_l2=(0.1, 2e-05, 3.0), note="é", command="a \\ b")), indent=1)
    + "\n"
).encode()


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, len(RECORD) - 1), flip=st.integers(1, 255), cut=st.booleans())
def test_a_flipped_byte_or_a_cut_is_found(tmp_path, at, flip, cut):
    path = tmp_path / "diffusion" / "spinn-mod-64.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        RECORD[:at] if cut else RECORD[:at] + bytes([RECORD[at] ^ flip]) + RECORD[at + 1 :]
    )
    try:
        found = read_record(path)
    except Damaged as caught:
        error = caught
    else:
        error = None
    if error is not None:
        assert error.path == path
        assert str(path) in str(error)
        assert error.reason in str(error)
        return
    assert json.dumps(found, sort_keys=True) == json.dumps(
        json.loads(RECORD), sort_keys=True
    )  # white space, or 1E-5 for 1e-5


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (RECORD[: len(RECORD) // 2], "is cut short"),
        (RECORD[:-3], "is cut short"),
        (b"\xff\xfe", "is not text"),
        (b"hello", "is not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b"[" * 100_000, "is not|is cut"),
        (RECORD.replace(b"0.1,", b"0.01,"), "was changed"),
        (RECORD.replace(b"0.1,", b"NaN,"), "NaN is not a number"),
        (RECORD.replace(b"0.1,", b"1e999,"), "Out of range"),
        (RECORD.replace(b'"schema": 1,', b'"schema": 1, "points": 5,'), "twice"),
        (RECORD.replace(b'"sha256"', b'"sha"'), "no checksum"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, reason):
    path = tmp_path / "diffusion" / "spinn-mod-64.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(Damaged, match=reason):
        read_record(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "schema is 2"),
        ({"points": "64"}, "points cannot be '64'"),
        ({"points": 64.0}, "points cannot be 64.0"),
        ({"points": True}, "points cannot be True"),
        ({"relative_l2": 0.1}, "relative_l2 cannot be 0.1"),
        ({"relative_l2": [0.1, 0.2]}, "relative_l2 has 2 values for 3 seeds"),
        ({"rmse": [0.1]}, "rmse has 1 values for 3 seeds"),
        ({"ms_per_step": "fast"}, "ms_per_step cannot be 'fast'"),
        ({"environment": None}, "environment cannot be None"),
        ({"status": "fine"}, "status cannot be 'fine'"),
        ({"relative_l2": None}, "'done' without relative_l2"),
        ({"status": "timed"}, "'timed' with relative_l2"),
        *(({name: ...}, f"no field '{name}'") for name in ("relative_l2", "note", "environment")),
    ],
)
def test_fields_that_do_not_hold_are_refused_when_read_and_when_written(tmp_path, changes, reason):
    path = tmp_path / "diffusion" / "spinn-mod-64.json"
    record = {k: v for k, v in (made() | changes).items() if v is not ...}
    with pytest.raises(InputError, match=reason):
        write_record(tmp_path, record)
    assert not path.exists()
    path.parent.mkdir()
    path.write_text(json.dumps(seal(record)))
    with pytest.raises(Damaged, match=reason):
        read_record(path)


@pytest.mark.parametrize(
    "place", ["helmholtz/spinn-mod-64", "diffusion/spinn-64", "diffusion/spinn-mod-32"]
)
def test_a_record_in_another_ones_place_is_refused(tmp_path, place):
    (path,) = put(tmp_path, made())
    other = tmp_path / f"{place}.json"
    other.parent.mkdir(exist_ok=True)
    path.rename(other)
    with pytest.raises(Damaged, match="is the record of diffusion/spinn-mod-64"):
        read_record(other)


def test_damaged_records_are_named_and_in_no_average(tmp_path):
    good, _, edited = put(
        tmp_path, made(points=32), made("helmholtz"), made(points=64, relative_l2=(0.5, 0.6))
    )
    edited.write_text(edited.read_text().replace("0.5", "0.0"))
    (tmp_path / "helmholtz" / "spinn-mod-64.json").write_text("{")
    (tmp_path / "diffusion" / "pinn-16.json").mkdir()
    (tmp_path / "diffusion" / "notes.txt").write_text("not a record")
    records, damaged = collect(tmp_path)
    assert records == [read_record(good)]
    assert [(e.path.name, e.reason.split(" (")[0].split(":")[0]) for e in damaged] == [
        ("pinn-16.json", "cannot be read"),
        ("spinn-mod-64.json", "was changed after it was written"),
        ("spinn-mod-64.json", "is cut short"),
    ]
    assert [row.points for row in compare("diffusion", records) if row.record] == [32]


# --- tables ---------------------------------------------------------------------------------------


def mixed():
    """Diffusion: a full row, one with fewer seeds and steps, one timed, one skipped, one of ours
    alone."""
    return [
        made(points=64, relative_l2=[0.004, 0.005, 0.006, 0.004, 0.005, 0.006, 0.005]),
        made(points=128, relative_l2=[0.0018], steps=5_000, ms_per_step=0.5),
        without_errors("timed", points=256, ms_per_step=6.065, memory_mb=100.0),
        without_errors(
            "skipped",
            network="pinn",
            ms_per_step=None,
            memory_mb=None,
            note="needs 90 GB | [bold]has 80",
        ),
        made(points=512, relative_l2=[1e-3, 2e-3]),
        made(points=64, relative_l2=[9.0], rank=4),
    ]


def test_rows_hold_the_numbers_of_records_and_paper():
    rows = compare("diffusion", mixed())
    assert len(rows) == 18
    at = {(row.network, row.points): row for row in rows}
    full = at["spinn-mod", 64]
    assert full.relative_l2.mean == pytest.approx(0.035 / 7)
    assert full.ratio == pytest.approx(0.005 / 0.0041)
    assert full.rmse == pytest.approx(0.0005)
    assert full.faster == pytest.approx(2.59 / 0.25)
    assert full.notes == ""
    some = at["spinn-mod", 128]
    assert (some.ratio, some.faster) == (pytest.approx(0.5), pytest.approx(6.12))
    assert some.notes == "1 seed of 7; 5,000 steps of 50,000"
    timed = at["spinn-mod", 256]
    assert (timed.relative_l2, timed.ratio, timed.faster, timed.memory_mb, timed.notes) == (
        None,
        None,
        2.0,
        100.0,
        "timed only",
    )
    assert at["pinn", 64].notes == "skipped: needs 90 GB | [bold]has 80"
    assert at["pinn", 64].memory_mb is None
    assert (at["spinn-mod", 512].published, at["spinn-mod", 512].ratio) == (None, None)
    assert at["spinn", 16].notes == "not run"
    assert [row.points for row in rows if row.network == "spinn-mod"] == [16, 32, 64, 128, 256, 512]


def test_totals_and_other_equations_find_their_rows():
    record = made("navier-stokes", points=64, relative_l2=[0.03] * 3, steps=100_000)
    rows = compare("navier-stokes", [record])
    (row,) = [row for row in rows if row.record is not None]
    assert (row.published.relative_l2, row.notes, len(rows)) == (0.0363, "", 8)
    assert "| 2¹⁸ |" in tables.markdown(tables.problem_table([row]))
    for points, error in ((256, 0.0322), (99, None)):  # the points of the released code, and others
        ours = [made("poisson-lshape", points=points, axes=2, steps=5_000)]
        (row,) = [r for r in compare("poisson-lshape", ours) if r.record]
        assert (row.published and row.published.relative_l2) == error
        assert row.ratio is None  # the published figure is of another equation
        assert ("-Δu + u = 1" in row.notes) == (error is not None)


def test_times_are_had_from_minutes_where_only_these_are_published():
    flow = next(r for r in published("navier-stokes") if r.points == 64)
    assert flow.step_ms == pytest.approx(9 * 60_000 / 100_000)
    (mixing,) = published("flow-mixing")
    assert mixing.step_ms == pytest.approx(6 * 60_000 / 50_000)
    (row,) = [r for r in compare("flow-mixing", [made("flow-mixing", points=256)]) if r.record]
    assert row.faster == pytest.approx(mixing.step_ms / row.ms_per_step)
    assert "≈ 7.2" in tables.markdown(tables.problem_table([row]))


def test_markdown_has_every_cell():
    text = tables.markdown(tables.problem_table(compare("diffusion", mixed())))
    table, caption = text.split("\n\n")
    lines = [
        [cell.strip() for cell in line.strip("|").replace("\\|", "¦").split("|")]
        for line in table.splitlines()
    ]
    assert {len(line) for line in lines} == {13}
    assert len(lines) == 20
    cells = {(line[0], line[1]): line[2:] for line in lines[2:]}
    half = 1.134157 * np.std([4, 5, 6, 4, 5, 6, 5], ddof=1) / 7**0.5 / 1000
    assert cells["spinn-mod", "64³"] == [
        "0.0041",
        f"0.005 ± {half:.2g}",
        "1.22",
        "0.00036",
        "0.0005",
        "2.59",
        "0.25",
        "10.4 ×",
        "768",
        "12.5",
        "",
    ]
    assert cells["spinn-mod", "256³"] == [
        "0.0036",
        "–",
        "–",
        "0.00031",
        "–",
        "12.1",
        "6.07",
        "2 ×",
        "2,176",
        "100",
        "timed only",
    ]
    assert cells["spinn-mod", "512³"][:3] == ["–", "0.0015 ± 0.00098", "–"]
    assert cells["pinn", "64³"][-1] == "skipped: needs 90 GB ¦ [bold]has 80"
    assert cells["spinn", "16³"][1] == "–"
    assert caption == "Ours: a device."


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("problem", PROBLEMS[-1:])
def test_the_terminal_table_fits(problem, width):
    others = [r | {"problem": problem} for r in mixed()]
    taken = {(r["network"], r["points"]) for r in others}
    known = (r for r in synthetic((problem,)) if (r["network"], r["points"]) not in taken)
    console = Console(width=width, file=io.StringIO(), color_system=None)
    table = tables.problem_table(compare(problem, [*others, *known]))
    console.print(drawn(table, width))
    text = console.file.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "skipped: needs 90 GB | [bold]has 80" in text
    assert "timed only" in text
    assert "1 seed of 7; 5,000 steps of 50,000" in text
    assert ("no room for: RMSE" in text) == (width < 160)


def test_the_summary_counts_rows():
    diffusion, helmholtz = (compare(problem, mixed()) for problem in ("diffusion", "helmholtz"))
    # compared: 64 (ratio 1.22, in full) and 128 (0.5, not in full); trained: those and 512, 35
    # seconds each
    assert summarise("diffusion", diffusion) == Summary("diffusion", 17, 2, 1, 2, 2.0, 105.0, 0)
    assert summarise("helmholtz", helmholtz) == Summary("helmholtz", 17, 0, 0, 0, None, 0, 0)
    text = tables.markdown(tables.summary_table({"diffusion": diffusion, "helmholtz": helmholtz}))
    assert "| diffusion | 17 | 2 | 1 | 2 | 2 × | 105 | 0 |" in text
    assert "| helmholtz | 17 | 0 | 0 | 0 | – | 0 | 0 |" in text
    worse = [
        made(points=64, relative_l2=[0.0041 * 1.26] * 7),
        made(points=128, relative_l2=[0.0036 * 1.249] * 7),
    ]
    assert summarise("diffusion", compare("diffusion", worse)).within == 1
    kinds = [made(points=64), made(network="pinn", points=16), made(network="pinn-mod", points=16)]
    found = summarise("diffusion", compare("diffusion", kinds))
    assert (found.separable_seconds, found.pointwise_seconds) == (35.0, 70.0)


def test_tables_in_documents_are_replaced(tmp_path):
    page = tmp_path / "page.md"
    before = (
        "# A\n\nWrite `<!-- separax:one -->`.\n\n<!-- separax:one -->\nold\n<!-- /separax -->\n\n"
        "B\n<!-- separax:two -->\n<!-- /separax -->\nC\n"
    )
    page.write_text(before)
    new = {"one": "| a |\n|---|\n| \\1 |", "two": "2\n", "elsewhere": "3"}
    expected = before.replace("\nold\n", "\n" + new["one"] + "\n")
    expected = expected.replace("two -->\n", "two -->\n2\n")
    assert filled(page, new) == expected
    page.write_text(expected)
    assert filled(page, new) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- separax:on -->\n<!-- /separax -->\n", "'on'.*Did you mean 'one'"),
        ("<!-- separax:one -->\n", "has no end"),
        ("<!-- separax:one -->\n<!-- separax:two -->\n<!-- /separax -->\n", "has no end"),
        (None, "cannot be read"),
    ],
)
def test_documents_that_cannot_be_filled_are_refused(tmp_path, text, words):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(InputError, match=words):
        filled(page, {"one": "1", "two": "2"})


# --- figures ------------------------------------------------------------


def line_of(panel, label):
    """The line of a label: steps or points, and values."""
    (line,) = [line for line in panel.get_lines() if line.get_label() == label]
    return line.get_xydata()


def size(path):
    """Width and height from the head of a PNG."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def test_four_columns_show_the_records_and_the_paper(tmp_path):
    records = synthetic(seeds=7)
    records.append(made(points=64, relative_l2=[9.0], rank=4))
    figure = four_columns(records, PROBLEMS)
    assert size(save_figure(figure, tmp_path / "made" / "four.png")) == (3600, 3000)
    panels = np.reshape(list(figure.axes), (4, 4))
    assert all(panel.get_yscale() == "log" for panel in panels.ravel())
    for problem, row in zip(PROBLEMS, panels):
        ours = {
            r["points"]: r
            for r in records
            if (r["problem"], r["network"]) == (problem, "spinn-mod") and len(r["seeds"]) == 7
        }
        x = sorted(ours)
        np.testing.assert_allclose(
            line_of(row[0], "spinn-mod"), [(n, np.mean(ours[n]["relative_l2"])) for n in x]
        )
        np.testing.assert_allclose(
            line_of(row[1], "spinn-mod"), [(n, ours[n]["ms_per_step"]) for n in x]
        )
        np.testing.assert_allclose(
            line_of(row[2], "spinn-mod"), [(n, ours[n]["memory_mb"]) for n in x]
        )
        theirs = {p.points: p for p in published(problem) if p.network == "spinn-mod"}
        np.testing.assert_allclose(
            line_of(row[0], "published spinn-mod"), [(n, theirs[n].relative_l2) for n in x]
        )
        np.testing.assert_allclose(
            line_of(row[1], "published spinn-mod"), [(n, theirs[n].ms_per_step) for n in x]
        )
        np.testing.assert_allclose(
            line_of(row[2], "published spinn-mod"), [(n, theirs[n].memory_mb) for n in x]
        )
        at = 16 if problem == "klein-gordon-3d" else 64
        curve = ours[at]["curve"]
        np.testing.assert_allclose(
            line_of(row[3], "spinn-mod"),
            np.stack([curve["steps"], np.mean(curve["relative_l2"], 1)], 1),
        )
        np.testing.assert_allclose(
            line_of(row[3], "published spinn-mod"), [(50_000, theirs[at].relative_l2)]
        )
        assert len(row[0].collections) == 4  # a band for every network
        low, high = (
            f(row[0].collections[3].get_paths()[0].vertices[:, 1]) for f in (np.min, np.max)
        )
        bands = [interval(ours[n]["relative_l2"]) for n in x]
        assert low == pytest.approx(min(b.mean - b.half for b in bands))
        assert high == pytest.approx(max(b.mean + b.half for b in bands))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["pinn", "pinn-mod", "spinn", "spinn-mod", "published", "70 % confidence"]
    assert "54³" in [
        text.get_text() for text in panels[0, 3].texts
    ]  # the modified baseline's curve is of fewer points
    looks = {(line.get_color(), line.get_marker()) for line in panels[0, 0].get_lines()}
    assert figure.get_supxlabel() == ""  # all in full
    assert len({colour for colour, _ in looks}) == len({mark for _, mark in looks}) == 4


def test_four_columns_bear_what_is_missing(tmp_path):
    records = [
        without_errors("timed", points=64),
        without_errors("skipped", points=128, note="too large"),
        made(points=32, relative_l2=[0.01]),
        made(points=16, relative_l2=[1e-9, 0.1], memory_mb=0.0),
    ]
    figure = four_columns(records, ["diffusion", "helmholtz", "my-own"])
    first, second, third = np.reshape(list(figure.axes), (3, 4))
    np.testing.assert_allclose(line_of(first[0], "spinn-mod")[:, 0], [16, 32])
    np.testing.assert_allclose(line_of(first[1], "spinn-mod")[:, 0], [16, 32, 64])
    np.testing.assert_allclose(
        line_of(first[2], "spinn-mod")[:, 0], [32, 64]
    )  # zero has no place on a log scale
    assert not any(line.get_label() == "spinn-mod" for line in second[0].get_lines())
    assert all("no records" in [t.get_text() for t in panel.texts] for panel in (second[3], *third))
    assert min(size(save_figure(figure, tmp_path / "some.png"))) > 1000
    assert figure.get_supxlabel() == "all of our errors are of fewer seeds or steps than published"


def test_error_against_rank_shows_means_and_bands(tmp_path):
    ranks = (4, 8, 16, 32)
    records = [
        made(relative_l2=[1 / r, 1.2 / r, 1.4 / r], rank=r, ms_per_step=0.1 + r / 100)
        for r in reversed(ranks)
    ]
    figure = error_against_rank([*records, *(r | {"problem": "klein-gordon"} for r in records)])
    label = "Diffusion, (2+1)-d, spinn-mod, 64³"
    np.testing.assert_allclose(line_of(figure.axes[0], label), [(r, 1.2 / r) for r in ranks])
    np.testing.assert_allclose(line_of(figure.axes[1], label), [(r, 0.1 + r / 100) for r in ranks])
    assert len(figure.axes[0].collections) == 2
    assert size(save_figure(figure, tmp_path / "rank.png")) == (2700, 1080)


@pytest.mark.whole
def test_flows_are_shown_as_in_the_paper(tmp_path, monkeypatch):
    """Untrained networks will do: what is drawn is where, and beside what."""
    monkeypatch.setattr(figures, "SHOWN", 12)
    monkeypatch.setattr(figures, "FRAMES", 3)
    for name in ("navier-stokes", "navier-stokes-3d"):
        text, how = CATALOGUE[name].make("paper")
        tiny = SPINN(rank=2, width=4, depth=1, body="mlp")
        small = untrained(text, dataclasses.replace(how, network=tiny, points=4))
        figures.flow_pictures(name, small, tmp_path, f"{name}-tiny")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "navier-stokes-3d-tiny-velocity.png",
        "navier-stokes-3d-tiny-vorticity.png",
        "navier-stokes-tiny-vorticity.gif",
        "navier-stokes-tiny-vorticity.png",
    ]
    (u, v, w) = figures.components(small, velocity)
    assert (u.held, v.held) == (w.held, w.held)
    assert u.reference[3, 5] == pytest.approx(
        float(velocity(x=u.axes["x"][3], y=u.axes["y"][5], **u.held)["u"])
    )
