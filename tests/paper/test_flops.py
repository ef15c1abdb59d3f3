"""Operation counts: the published table to its printed digits, and our own count against XLA's."""

import pytest

from separax.networks.architectures import PINN, SPINN
from separax.paper import operation_counts as flops
from separax.paper.operation_counts import NOTHING, PAPER_PINN, PAPER_SPINN, PUBLISHED, ROWS, Count


def total(counts):
    return NOTHING.plus(*counts).flops


@pytest.mark.parametrize(("name", "network"), [("SPINN", PAPER_SPINN), ("PINN", PAPER_PINN)])
def test_the_published_table_to_its_printed_digits(name, network):
    rows, published = PUBLISHED[name]
    found = flops.by_formula(network)
    assert [Count(round(c.adds / 1e6), round(c.mults / 1e6)) for c in found] == list(rows)
    # totals: 280 is the sum of rounded rows, 390,370 that of the rows, rounded
    assert total(found) / 1e6 == pytest.approx(published, rel=3e-3)
    assert abs(sum(c.flops for c in rows) - published) <= 2


def test_the_pinn_total_but_for_its_last_digit():
    assert total(flops.by_formula(PAPER_PINN)) // 10**7 * 10 == 390_370


def test_the_merge_is_most_of_the_published_forward_pass():
    forward = flops.by_formula(PAPER_SPINN)[0].mults
    merge = 2 * 32 * 64**3
    assert merge / forward == pytest.approx(0.84, abs=0.01)
    # the output layer as it is: the first row still prints as 20, the other two no longer as 40 and
    # 80
    honest = forward + 192 * 64 * (32 - 1)
    assert [round(k * honest / 1e6) for k in (1, 2, 4)] == [20, 41, 81]


def test_one_dense_layer_by_hand():
    """Two axes of two points, width one, depth one, rank one."""
    found = flops.one_pass(SPINN(rank=1, width=1, depth=1, body="mlp"), axes=2, points=2)
    # per coordinate: 3 products and a bias, an activation (3, 6), 3 products and a bias, a factor 2
    # of the second derivative
    assert found["network"] == Count(1 + 3 + 1, 3 + 6 + 3 + 1).times(4)
    assert found["merge"] == Count(0, 4).times(5)


@pytest.mark.parametrize(
    "network",
    [SPINN(rank=16, width=32, depth=3, body="mlp"), PINN(width=32, depth=3, body="mlp")],
    ids=["SPINN", "PINN"],
)
@pytest.mark.parametrize(("axes", "points"), [(1, 16), (3, 8), (4, 5)])
def test_xla_counts_what_we_count(network, axes, points):
    """Within a tenth: XLA counts signs, scalings and padding as well."""
    expected = total(flops.one_pass(network, axes, points).values())
    found = flops.counted(network, axes, points)
    assert expected <= found.compiled <= 1.1 * expected
    assert expected <= found.written <= 1.1 * expected


def test_the_paper_way_writes_more_and_compiles_to_the_same():
    ours, nested = flops.counted(PAPER_SPINN), flops.counted(PAPER_SPINN, nested=True)
    assert nested.written > 1.25 * ours.written
    assert nested.compiled == pytest.approx(ours.compiled, rel=0.05)


def test_counting_a_pinn_is_linear_in_its_points():
    small, large = (flops.counted(PAPER_PINN, points=n).compiled for n in (8, 64))
    assert large == pytest.approx(8**3 * small, rel=1e-3)
    assert large == pytest.approx(total(flops.one_pass(PAPER_PINN).values()), rel=0.02)


def test_table():
    lines = flops.count_operations()
    assert [line.what for line in lines[:4]] == [
        *(f"SPINN, {row}" for row in ROWS),
        "SPINN, the paper's total",
    ]
    published = [line for line in lines if line.published_adds is not None]
    assert len(published) == 6
    assert all(round(line.adds) == line.published_adds for line in published)
    assert [line.published_total for line in lines if line.published_total] == [280, 390_370]
    assert len(lines) == 10 + 6
    assert all(line.total > 0 for line in lines)
