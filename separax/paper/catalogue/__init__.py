"""The paper's equations, each with a `paper` recipe that follows the paper and a `best` one that is
as good as we know."""

from __future__ import annotations

from ...core import one_of
from .diffusion import DIFFUSION
from .diffusion_5d import DIFFUSION_5D
from .entry import Entry
from .flow_mixing import FLOW_MIXING
from .helmholtz import HELMHOLTZ
from .klein_gordon import KLEIN_GORDON
from .klein_gordon_3d import KLEIN_GORDON_3D
from .navier_stokes import NAVIER_STOKES
from .navier_stokes_3d import NAVIER_STOKES_3D
from .poisson_lshape import POISSON_LSHAPE

_THREE_AND_FOUR_AXES = (DIFFUSION, HELMHOLTZ, KLEIN_GORDON, KLEIN_GORDON_3D)
_FLOWS, _OTHERS = (NAVIER_STOKES, NAVIER_STOKES_3D), (DIFFUSION_5D, FLOW_MIXING, POISSON_LSHAPE)
CATALOGUE: dict[str, Entry] = {
    entry.name: entry for entry in (*_THREE_AND_FOUR_AXES, *_FLOWS, *_OTHERS)
}


def find(name: str) -> Entry:
    """An entry of the catalogue.

    Arguments:
        name: such as "helmholtz"; the nearest name is suggested where there is none.

    Returns:
        The entry, which makes problems and recipes.
    """
    return CATALOGUE[one_of("problem", name, CATALOGUE)]
