"""The quality of NVLink 5 links: bit errors before correction, and what the correction leaves of them.

A codeword of the forward error correction (Reed-Solomon 544, 514) has 544 symbols of 10 bits, of which it corrects 15.
Errors are independent, so that the wrong symbols of a codeword have a Poisson distribution. Links of a rack wander
around a common rate of bit errors; a cable that wears out takes one link to higher rates.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, uniform

#: Codewords with 0 to 15 wrong symbols are corrected, and counted apart.
CORRECTED: Final = 16
_SYMBOLS: Final = 544
_BITS: Final = 5440
#: Codewords of a link in a second: 50 GB/s each way, with or without data.
_CODEWORDS_PER_SECOND: Final = 50e9 * 8 / _BITS
#: The rate of a good link, how far it wanders in decades, and how long it takes for that: chosen.
_GOOD_BER: Final = 1e-13
_WANDERING_DECADES: Final = 0.7
_WANDERING_SECONDS: Final = 600.0
_HIGHEST_BER: Final = 0.01
#: Terms of the sum over codewords that cannot be corrected.
_TERMS: Final = 24
#: The effective rate at which a link goes down: chosen, above the 1e-12 at which DCGM's health check fails.
FAILING_BER: Final = 1e-9
#: Of codewords that cannot be corrected, how many have the link trained anew; how often at most: chosen.
_RECOVERIES_PER_CODEWORD: Final = 0.1
_MOST_RECOVERIES_PER_SECOND: Final = 0.1
#: Of the bit errors after the correction, those that repeating a packet does not mend: chosen.
_UNMENDED: Final = 0.01
#: DCGM's number for no errors: mantissa 15, exponent 255.
NO_ERRORS: Final = 15 << 8 | 255


class Quality(NamedTuple):
    """The links of D devices: shape (D,), rates of the worst link.

    :ivar raw_ber: bit errors before the correction.
    :ivar effective_ber, symbol_ber: after it, and after packets were repeated.
    :ivar codewords: with 0 to 15 wrong symbols, in a second over all links: shape (16, D).
    :ivar uncorrected: codewords that could not be corrected, in a second.
    """

    raw_ber: Floats
    effective_ber: Floats
    symbol_ber: Floats
    codewords: Floats
    uncorrected: Floats

    @property
    def recoveries(self) -> Floats:
        """How often a second links are trained anew."""
        return np.minimum(self.uncorrected * _RECOVERIES_PER_CODEWORD, _MOST_RECOVERIES_PER_SECOND)


def wandering(seed: int, keys: Keys, seconds: float) -> Floats:
    """The bit errors of good links at a simulated time, shape as ``keys``: a smooth function of the time."""
    step, share = divmod(seconds / _WANDERING_SECONDS, 1.0)
    ends = [uniform(seed, keys, "link errors", int(step) + offset) for offset in (0, 1)]
    blend = share * share * (3.0 - 2.0 * share)
    decades = _WANDERING_DECADES * (2.0 * (ends[0] + (ends[1] - ends[0]) * blend) - 1.0)
    rates: Floats = _GOOD_BER * 10.0**decades
    return rates


def quality(good_ber: Floats, links: Floats, worn_decades: Floats) -> Quality:
    """The quality of the links of D devices.

    :param good_ber: bit errors of their good links.
    :param links: links that are up.
    :param worn_decades: how much worse the worn link of each is; 0 without one.
    """
    mean = good_ber * _BITS
    codewords = np.zeros((CORRECTED, len(good_ber)))
    # Good links have so few errors that two in a codeword do not occur.
    codewords[1] = mean * links * _CODEWORDS_PER_SECOND
    codewords[0] = links * _CODEWORDS_PER_SECOND - codewords[1]
    raw, effective, uncorrected = good_ber.copy(), np.zeros(len(good_ber)), np.zeros(len(good_ber))
    worn = np.flatnonzero(worn_decades > 0)
    if len(worn):
        raw[worn] = np.minimum(good_ber[worn] * 10.0 ** worn_decades[worn], _HIGHEST_BER)
        wrong = raw[worn] * _BITS
        codewords[:, worn] *= np.maximum(links[worn] - 1.0, 0.0) / np.maximum(links[worn], 1.0)
        codewords[:, worn] += _poisson(wrong, range(CORRECTED)) * _CODEWORDS_PER_SECOND
        lost = _poisson(wrong, range(CORRECTED, CORRECTED + _TERMS))
        uncorrected[worn] = lost.sum(axis=0) * _CODEWORDS_PER_SECOND
        wrong_symbols = (lost * np.arange(CORRECTED, CORRECTED + _TERMS)[:, np.newaxis]).sum(axis=0)
        effective[worn] = wrong_symbols / _SYMBOLS
    return Quality(raw, effective, effective * _UNMENDED, codewords, uncorrected)


def _poisson(mean: Floats, numbers: range) -> Floats:
    """The probability of each number of wrong symbols: shape (numbers, D)."""
    logarithms = np.log(np.maximum(mean, 1e-300))
    rows = [number * logarithms - mean - math.lgamma(number + 1) for number in numbers]
    return np.exp(np.array(rows))


def packed(rates: Floats) -> Floats:
    """Rates of errors as DCGM packs them: the mantissa, 1 to 15, in bits 8 to 11, and the negative exponent below."""
    some = rates > 1e-250
    exponents = np.where(some, np.floor(np.log10(np.where(some, rates, 1.0))), 0.0)
    mantissas = np.clip(np.rint(np.where(some, rates, 1.0) * 10.0**-exponents), 1.0, 15.0)
    return np.where(some, mantissas * 256.0 + np.minimum(-exponents, 255.0), float(NO_ERRORS))
