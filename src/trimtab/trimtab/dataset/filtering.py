"""Accelerations from velocities, segment by segment: by a filter that knows no future, or by one without a phase."""

import math

import numpy as np
from scipy.signal import butter, sosfilt, sosfilt_zi, sosfiltfilt

from trimtab.typing import FloatArray

CAUSAL, ZERO_PHASE = "causal", "zero_phase"
METHODS = (CAUSAL, ZERO_PHASE)
ORDER = 2


def settling_rows(rate: float, cutoff: float) -> int:
    """Rows at a segment's beginning (without a phase: at its end as well) in which the filter has not settled."""
    return max(1, math.ceil(rate / cutoff))


def accelerations(qd: FloatArray, rate: float, cutoff: float, method: str) -> FloatArray:
    """Filtered derivative of one segment's velocities, both (n, dof); rows in which the filter settles are NaN.

    rate, cutoff: [Hz]. Causal: a row depends on no later row. Without a phase: on rows of this segment only.
    """
    result = np.full_like(qd, np.nan)
    settling = settling_rows(rate, cutoff)
    sections = butter(ORDER, cutoff, fs=rate, output="sos")
    if method == CAUSAL:
        if len(qd) <= settling:
            return result
        begin = sosfilt_zi(sections)[:, :, None] * qd[0]
        smooth, _ = sosfilt(sections, qd, axis=0, zi=begin)
        result[settling:] = (np.diff(smooth, axis=0) * rate)[settling - 1 :]
        return result
    if len(qd) <= 2 * settling + 1:
        return result
    smooth = sosfiltfilt(sections, qd, axis=0, padlen=min(3 * settling, len(qd) - 1))
    result[settling:-settling] = np.gradient(smooth, 1.0 / rate, axis=0)[settling:-settling]
    return result
