"""What a run tells others: hooks and plain functions, and TensorBoard."""

import struct

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx

HOW = sx.Recipe(sx.SPINN(rank=2, width=4, depth=1), points=4, steps=200)


def decay(**options):
    return sx.Problem(
        sx.Box(t=(0, 1)), lambda u: u.t + 2 * u, [sx.Initial(1.0)], name="decay", **options
    )


class Seen(sx.AbstractHook):
    def __init__(self):
        self.said = []

    def on_start(self, settings):
        self.said.append(("start", settings))

    def on_update(self, step, steps, losses, error, rate):
        self.said.append(("update", step, steps, losses, error))

    def on_end(self, solution):
        self.said.append(("end", solution))


class Told:
    """No hook: a method of another name would never be called, and nobody would say so."""

    def on_end(self, solution): ...


class OnlyEnd(sx.AbstractHook):
    def on_end(self, solution):
        self.solution = solution


@pytest.mark.parametrize("windows", [1, pytest.param(2, marks=pytest.mark.whole)])
def test_hooks_are_told_of_start_updates_and_end(windows):
    seen, end, plain = Seen(), OnlyEnd(), []
    solution = sx.solve(
        decay(),
        HOW,
        windows=windows,
        callback=[seen, end, lambda **now: plain.append(now)],
        progress=False,
    )
    (start, *updates, last) = seen.said
    assert start[0] == "start"
    assert start[1]["problem"] == "decay"
    assert last == ("end", solution)
    assert end.solution is solution
    assert [u[1] for u in updates] == [now["step"] for now in plain]
    assert updates[-1][1:3] == (200 * windows, 200 * windows)
    assert list(updates[0][3]) == ["residual", "initial", "total"]
    assert [u[3]["total"] for u in updates] == [now["loss"] for now in plain]
    losses = updates[0][3]
    assert losses["residual"] + 10 * losses["initial"] == pytest.approx(losses["total"], rel=1e-5)


def test_the_end_of_a_run_that_diverged_is_told():
    end = OnlyEnd()
    with pytest.raises(sx.Diverged) as error:
        sx.solve(
            sx.Problem(sx.Box(t=(0, 1)), lambda u: np.log(-1 - u**2) + u.t),
            HOW,
            callback=end,
            progress=False,
        )
    assert end.solution is error.value.solution


@pytest.mark.whole
def test_the_end_of_a_solve_without_a_recipe_is_told_of_what_is_kept(tmp_path):
    end = OnlyEnd()
    solution = sx.solve(decay(), out=tmp_path / "run", callback=end, progress=False)
    assert end.solution is solution
    assert end.solution.record["problem"] == "decay"


@pytest.mark.parametrize("callback", [3, [print, "mine"], sx.TensorBoard, Told()])
def test_what_is_no_callback_is_refused(callback):
    with pytest.raises(
        sx.InputError,
        match="callback must be a function of step, steps, loss, error and rate, or an object",
    ):
        sx.solve(decay(), HOW, callback=callback)


def test_tensorboard_files_hold_the_losses(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    seen = Seen()
    sx.solve(
        decay(reference=lambda t: jnp.exp(-2 * t)),
        HOW,
        callback=[seen, sx.TensorBoard(tmp_path)],
        progress=False,
    )
    (path,) = tmp_path.iterdir()
    data, found = path.read_bytes(), {}
    while data:  # length, checksum, event, checksum
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found[event.step, value.tag] = value.simple_value
    for _, step, _, losses, error in seen.said[1:-1]:
        for name, value in losses.items():
            assert found[step, f"loss/{name}"] == np.float32(value)
        assert found[step, "relative_l2"] == np.float32(error)
