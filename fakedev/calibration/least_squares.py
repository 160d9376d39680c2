"""Least squares within bounds, by SciPy, with the standard errors of the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats

#: Values of coefficients to residuals: shape (T,).
Residuals = Callable[[Floats], Floats]
#: Singular values of a Jacobian below this share of the largest count as 0.
_SINGULAR: Final = 1e-9
#: Evaluations after which a fit ends; three to ten are usual.
_MOST_STEPS: Final = 60


def least_squares(residuals: Residuals, start: Floats, lows: Floats, highs: Floats) -> tuple[Floats, Floats]:
    """The values with the least sum of squares, within bounds, and their standard errors.

    Large residuals count less (soft L1): changes of the load fall between two samples. The standard errors are those of
    linear least squares at the solution: the diagonal of the inverse of J'J, times the mean square.
    """
    from scipy.optimize import least_squares as solved  # noqa: PLC0415 - an extra, and slow to import

    scale = np.maximum(np.abs(start), 1e-3)
    found = solved(residuals, start, bounds=(lows, highs), loss="soft_l1", x_scale=scale, max_nfev=_MOST_STEPS)
    values = np.asarray(found.x, dtype=np.float64)
    _, sizes, directions = np.linalg.svd(np.asarray(found.jac) * np.maximum(np.abs(values), 1e-9), full_matrices=False)
    sizes = np.maximum(sizes, _SINGULAR * max(float(sizes.max()), _SINGULAR))
    spread = np.sqrt(2.0 * float(found.cost) / max(len(found.fun) - len(start), 1))
    errors = spread * np.sqrt(np.sum((directions.T / sizes) ** 2, axis=1))
    return values, errors * np.maximum(np.abs(values), 1e-9)
