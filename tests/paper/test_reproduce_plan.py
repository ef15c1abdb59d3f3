"""The rows that are run, and what each of them is."""

from pathlib import Path

import pytest

from separax.core.errors import InputError
from separax.paper.catalogue import CATALOGUE
from separax.paper.reproduce.plan import Job, left_out, plan, published


def rows(jobs):
    return [(job.problem, job.network, job.points) for job in jobs]


def test_the_plan_has_every_published_row_that_can_be_run():
    jobs = plan()
    ours = [
        r
        for r in published()
        if r.problem in CATALOGUE
        and r.network.split("+")[0] in ("spinn", "spinn-mod", "pinn", "pinn-mod")
    ]
    assert set(rows(jobs)) == {(r.problem, r.network, r.points) for r in ours}
    assert len(rows(jobs)) == len(set(rows(jobs)))
    assert len({job.path(Path("out")) for job in jobs}) == len(jobs)
    pointwise = [job.network.startswith("pinn") for job in jobs]
    assert pointwise == sorted(pointwise)  # baselines last


def test_seeds_are_the_papers():
    for job in plan():
        published_seeds = {"navier-stokes": 3, "navier-stokes-3d": 5}.get(job.problem, 7)
        assert job.seeds == tuple(range(3 if job.network.startswith("pinn") else published_seeds))
        assert (job.steps, job.rank) == (None, None)
    assert {job.seeds for job in plan(["helmholtz"], seeds=2, first_seed=5)} == {(5, 6)}


@pytest.mark.parametrize(
    ("baselines", "trained"), [("timed", set()), ("smallest", {16}), ("all", {16, 32, 64})]
)
def test_baselines_are_trained_where_asked(baselines, trained):
    jobs = plan(["diffusion"], networks=["pinn", "spinn"], baselines=baselines)
    assert {job.points for job in jobs if job.network == "pinn" and job.train} == trained
    assert {job.points for job in jobs if job.network == "pinn"} == {16, 32, 64}
    assert all(job.train for job in jobs if job.network == "spinn")


def test_points_and_names_cut_the_plan_down():
    assert rows(plan(["helmholtz"], networks=["spinn"], points=[64, 16])) == [
        ("helmholtz", "spinn", 16),
        ("helmholtz", "spinn", 64),
    ]
    assert rows(plan(["helmholtz"], networks=["spinn"], points=[24])) == [
        ("helmholtz", "spinn", 24)
    ]  # of our own
    assert [n for _, _, n in rows(plan(["helmholtz"], networks=["spinn"], points=[8, 16]))] == [
        8,
        16,
    ]  # all of a named network
    assert [n for _, _, n in rows(plan(["helmholtz"], points=[24, 16])) if n != 16] == []
    assert rows(plan(["helmholtz", "helmholtz"], networks=["spinn"], points=[24])) == [
        ("helmholtz", "spinn", 24)
    ]
    tuned = [job for job in plan(points=[64]) if job.network.endswith("+lbfgs")]
    assert tuned
    assert {job.points for job in tuned} == {64}
    assert not [job for job in plan(points=[32]) if job.network.endswith("+lbfgs")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"problems": ["helmholtz"], "networks": ["spinn"], "points": [8, 16]}, []),
        ({"problems": ["helmholtz"], "networks": [], "points": [24, 16]}, ["24 points"]),
        (
            {"problems": ["helmholtz", "diffusion-5d"], "networks": ["spinn-mod"], "points": []},
            ["spinn-mod of diffusion-5d"],
        ),
        ({"problems": [], "networks": [], "points": []}, []),
    ],
)
def test_what_is_asked_for_and_not_planned_is_said(options, words):
    assert left_out(plan(**options), **options) == words


def test_a_study_of_ranks_is_of_separable_networks():
    jobs = plan(["klein-gordon"], points=[16], ranks=[8, 2, 8])
    assert [(job.network, job.rank) for job in jobs] == [
        ("spinn", 2),
        ("spinn", 8),
        ("spinn-mod", 2),
        ("spinn-mod", 8),
    ]
    assert jobs[0].stem == "spinn-16-rank2"
    assert jobs[0].make()[1].network.rank == 2


def test_jobs_are_paper_recipes_with_what_was_asked():
    problem, recipe = Job("flow-mixing", "spinn-mod", 32, (0,), steps=70).make()
    assert (problem.name, recipe.points, recipe.steps, recipe.network.rank) == (
        "flow-mixing",
        32,
        70,
        128,
    )
    job = next(job for job in plan() if job.network == "spinn-mod+lbfgs")
    recipe = job.make()[1]
    assert [type(o).__name__ for o in recipe.optimisers] == ["Adam", "LBFGS"]
    assert recipe.total_steps == 51_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"problems": ["helmoltz"]}, "problem | 'helmoltz' | Did you mean 'helmholtz'"),
        ({"networks": ["spin-mod"]}, "networks | 'spin-mod' | Did you mean 'spinn-mod'"),
        ({"baselines": "smalest"}, "baselines | 'smalest' | Did you mean 'smallest'"),
        ({"seeds": 0}, "seeds | at least 1 | got 0"),
        ({"points": [0]}, "points | at least 1 | got 0"),
        ({"ranks": [-1]}, "ranks | at least 1 | got -1"),
        ({"networks": ["pinn"], "ranks": [4]}, "ranks | pinn | spinn"),
        (
            {"problems": ["flow-mixing"], "networks": ["pinn"]},
            "no row for flow-mixing, pinn | --show",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(options, words):
    with pytest.raises(InputError) as error:
        plan(**options)
    for word in words.split(" | "):
        assert word in str(error.value)


def test_totals_are_spread_as_the_papers_code_does():
    jobs = {job.points: job for job in plan(["navier-stokes"], networks=["spinn-mod"])}
    assert set(jobs) == {32, 64, 128}
    assert [jobs[n].make()[1].points for n in (64, 128)] == [
        {"t": 16, "x": 128, "y": 128},
        {"t": 32, "x": 256, "y": 256},
    ]
