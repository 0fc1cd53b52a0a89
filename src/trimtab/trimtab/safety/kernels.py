"""The safety filter's arithmetic, compiled: what a residual has earned, how far it may go, when it must be switched off.

All functions work on a few tables that `filter.py` and `evidence.py` make: one with a row per quantity and a column per
joint, and one with a number per quantity, each in a version that stays and one that changes. The rows have names here.
"""

import math

import numpy as np

from trimtab.compiled import compiled
from trimtab.safety.limits import Limit
from trimtab.typing import FloatArray

WINDOW = 0.5  # s; time constant of the shares and energies that abort
HIGH_BAND = 15.0  # Hz; above this a residual that follows a reference has nothing to say
TRACKING_EVERY = 5  # steps between two looks at the errors, which change slowly
TRACKING_FLOOR = 0.005  # rad; a smaller error is not worth an abort
SOFT = 0.25  # share of the tank below which the residual is scaled down, before the hard bound has to act
JUDGED = 0.4  # s; time constant of the mean squares that the evidence compares
FALL = 0.04  # s from full authority to none when the evidence turns
DOUBTFUL, CLEAR = 0.1, 0.3  # share by which the mean square error must fall for any authority, and for all of it
SMALLEST = 1e-4  # rad; errors of the whole arm below this prove nothing
INERTIA_EVERY = 10  # lessons after which the mass matrix is computed again

# limits (9, dof) and rules: what does not change. RESERVE times the residual squared is what the tank keeps.
LIMIT, SIZE, INVERSE_SIZE, SLEW_STEP, MIDDLE, HALF, VELOCITY, FASTEST, RESERVE = range(9)
PERIOD, LONGEST_STEP, CAPACITY, REFILL, POSITION_MARGIN, VELOCITY_MARGIN = range(6)
MOST_SATURATION, MOST_OSCILLATION, MOST_TRACKING, LONGEST_SLEW = range(6, 10)
RULES = 10

# now (12, dof) and state: one step. WANTED: the offer within its size; TARGET, NEXT: where the residual is to go, and where
# it gets to; SLOW: its low band. LEVEL: of the energy tank [J]; POWER: what the last torque took out of it [W]; SATURATED,
# SLEWING, OSCILLATION: of the last moments, see `_abort`; STEPS_ACTING: with a residual; ACTS: whether there is one at all.
CLASSICAL, OFFER, Q, QD, ERROR, WANTED, TARGET, NEXT, RESIDUAL, TORQUE, LEARNED, SLOW = range(12)
LEVEL, POWER, SATURATED, SLEWING, OSCILLATION, STEPS_ACTING, ACTS, FIRED = range(8)
NOW, STATE = 12, 8

# law (2, dof) and pace: what the evidence must know of the classical controller.
DAMPING, STIFFNESS = range(2)
CORRECTOR, RISE, PROOF_STEPS = range(3)

# seen (11, dof) and score: what the evidence remembers. SEEN_Q, SEEN_ERROR, and at [U], [U + 1] the torques applied and
# wanted are the lesson of the newest step; S, V, X in the same way how those moved the joints, see `_move`. EE to XX: means
# of e e, and with b = e + x(applied), x = x(wanted) of b b, b x, x x.
SEEN_Q, SEEN_ERROR, PUSH, U, S, V, X = 0, 1, 2, 3, 5, 7, 9
EE, BB, BX, XX, TRUST, STEPS, PENDING, FRESH, STEP = range(9)
SEEN, SCORE = 11, 9

FINE, NOT_FINITE, SATURATED_TOO_LONG, SLEWS_TOO_LONG, OSCILLATES, TRACKS_WORSE = range(6)
"""What a step found out about the residual; all but the first switch it off."""

_TORQUE, _SIZE, _SLEW, _ENERGY = int(Limit.TORQUE), int(Limit.SIZE), int(Limit.SLEW), int(Limit.ENERGY)
_POSITION, _VELOCITY = int(Limit.POSITION), int(Limit.VELOCITY)
_CONFIDENCE, _EVIDENCE, _MISSING = int(Limit.CONFIDENCE), int(Limit.EVIDENCE), int(Limit.MISSING)


@compiled
def _clamp(value: float, limit: float) -> float:
    """Within plus and minus a limit; NaN stays NaN."""
    return limit if value > limit else -limit if value < -limit else value


# Evidence ------------------------------------------------------------------------------------------------------------


@compiled
def factor(mass: FloatArray, lower: FloatArray) -> None:
    """Cholesky: lower lower^T = mass, both (dof, dof)."""
    for i in range(len(mass)):
        for j in range(i + 1):
            left = mass[i, j]
            for k in range(j):
                left -= lower[i, k] * lower[j, k]
            lower[i, j] = math.sqrt(left) if i == j else left / lower[j, j]


@compiled
def weigh(law: FloatArray, pace: FloatArray, seen: FloatArray, score: FloatArray, lower: FloatArray) -> bool:
    """Takes in the lesson of the newest step, if there is one; False where it needs the mass matrix's factor first."""
    if score[PENDING] == 0.0:
        return True
    if score[STEPS] % INERTIA_EVERY == 0.0 and score[FRESH] == 0.0:
        return False
    score[PENDING] = score[FRESH] = 0.0
    dt = score[STEP]
    for which in range(2):  # the torque that was applied, and the one that was wanted
        _move(law, pace[CORRECTOR], seen, which, lower, dt)
    ee = bb = bx = xx = 0.0
    for i in range(seen.shape[1]):
        e, x = seen[SEEN_ERROR, i], seen[X + 1, i]
        b = e + seen[X, i]
        ee += e * e
        bb += b * b
        bx += b * x
        xx += x * x
    share = dt / (JUDGED + dt)
    score[EE] += share * (ee - score[EE])
    score[BB] += share * (bb - score[BB])
    score[BX] += share * (bx - score[BX])
    score[XX] += share * (xx - score[XX])
    score[STEPS] += 1.0
    change = (0.0 if score[STEPS] < pace[PROOF_STEPS] else _earned(score)) - score[TRUST]
    score[TRUST] += min(max(change, -dt / FALL), dt * pace[RISE])
    return True


@compiled
def _move(law: FloatArray, corrector: float, seen: FloatArray, which: int, lower: FloatArray, dt: float) -> None:
    """How far a torque u moves the joints under the classical controller, of which an observer takes away s: by x.

    s' = c (u - s), v' = inverse(M) (u - s) - 2 d w v - w^2 x, x' = v.
    """
    push, u, s, v, x = seen[PUSH], seen[U + which], seen[S + which], seen[V + which], seen[X + which]
    followed = min(1.0, corrector * dt)
    for i in range(len(u)):
        push[i] = u[i] - s[i]
        s[i] += followed * push[i]
    for i in range(len(u)):
        for j in range(i):
            push[i] -= lower[i, j] * push[j]
        push[i] /= lower[i, i]
    for i in range(len(u) - 1, -1, -1):
        for j in range(i + 1, len(u)):
            push[i] -= lower[j, i] * push[j]
        push[i] /= lower[i, i]
    for i in range(len(u)):
        v[i] += dt * (push[i] - law[DAMPING, i] * v[i] - law[STIFFNESS, i] * x[i])
        x[i] += dt * v[i]


@compiled
def _earned(score: FloatArray) -> float:
    """The best share of the residual, as far as the error would clearly fall with it."""
    if score[BX] <= 0.0 or score[XX] <= 0.0 or score[EE] > score[BB] + SMALLEST**2:
        return 0.0  # it would not help, or what was let in of it has done harm
    best = min(1.0, score[BX] / score[XX])
    fall = (2.0 * best * score[BX] - best * best * score[XX]) / (score[BB] + SMALLEST**2)
    earned: float = best * min(1.0, max(0.0, (fall - DOUBTFUL) / (CLEAR - DOUBTFUL)))
    return earned


@compiled
def doubt(score: FloatArray, dt: float) -> None:
    """Trust falls as if the evidence had turned dt [s] ago."""
    score[TRUST] = max(0.0, score[TRUST] - dt / FALL)


# One step ------------------------------------------------------------------------------------------------------------


@compiled
def bound(
    limits: FloatArray,
    rules: FloatArray,
    now: FloatArray,
    state: FloatArray,
    seen: FloatArray,
    score: FloatArray,
    confidence: float,
    authority: float,
    dt: float,
) -> int:
    """One step of the filter: CLASSICAL, OFFER, Q, QD and ERROR stand in `now`; fills TORQUE, RESIDUAL, LEARNED and FIRED.

    confidence: of the offer, within 0 and 1; NaN where there is none. authority: share of the residual that is wanted at
    all. dt: since the step before [s]. Gives what it found out about the residual. Leaves a lesson for the evidence.
    """
    # What was added, and what was wanted, has led to the error of now. Over a gap nothing is learned.
    score[PENDING], score[STEP] = 1.0 if dt <= rules[LONGEST_STEP] else 0.0, dt
    seen[SEEN_Q], seen[SEEN_ERROR], seen[U], seen[U + 1] = now[Q], now[ERROR], now[RESIDUAL], now[WANTED]
    # The tank. Where more than a period has passed, the last torque acted for longer than it has paid for.
    overrun = max(0.0, dt - rules[PERIOD])
    state[LEVEL] = min(rules[CAPACITY], state[LEVEL] + rules[REFILL] * dt) - state[POWER] * overrun

    found, offered, fired = _take(limits, now, confidence)
    if offered:
        fired |= _aim(limits, rules, now, confidence * authority * score[TRUST])
        if authority > 0.0 and score[TRUST] < 1.0:
            fired |= _EVIDENCE
    if offered or state[ACTS] != 0.0:
        fired |= _approach(limits, rules, now, state, offered)
        if fired & _SLEW:  # what jumps has changed its mind: its past proves little
            doubt(score, dt)
    acts = state[ACTS] != 0.0
    if acts:
        aborted = _abort(limits, rules, now, state, score, fired, dt)
        found = aborted if found == FINE else found
    over = False
    for i in range(now.shape[1]):
        classical, limit = now[CLASSICAL, i], limits[LIMIT, i]
        total = classical + now[RESIDUAL, i] if acts else classical
        now[TORQUE, i] = _clamp(total, limit)
        over |= not abs(total) <= limit
    for i in range(now.shape[1]):
        classical = _clamp(now[CLASSICAL, i], limits[LIMIT, i])
        now[LEARNED, i] = now[TORQUE, i] - classical if over and acts else now[RESIDUAL, i]
    state[FIRED] = fired | (_TORQUE if over else 0)
    return found


@compiled
def bound_rows(
    limits: FloatArray,
    rules: FloatArray,
    now: FloatArray,
    state: FloatArray,
    law: FloatArray,
    pace: FloatArray,
    seen: FloatArray,
    score: FloatArray,
    lower: FloatArray,
    given: FloatArray,
    confidence: FloatArray,
    dt: FloatArray,
    made: FloatArray,
    fired: np.ndarray,
    first: int,
    end: int,
) -> tuple[int, int]:
    """Many steps with full authority, rows `first` to `end`, each preceded by the lesson of the one before.

    given (n, 5, dof): CLASSICAL to ERROR; made (n, 3, dof): RESIDUAL to LEARNED; the others (n,). Gives the first row that
    is not done and what the last one found. Comes back early where that is not fine, or where the next row needs the mass
    matrix (see `weigh`).
    """
    for row in range(first, end):
        if not weigh(law, pace, seen, score, lower):
            return row, FINE
        now[CLASSICAL : ERROR + 1] = given[row]
        found = bound(limits, rules, now, state, seen, score, confidence[row], 1.0, dt[row])
        made[row] = now[RESIDUAL : LEARNED + 1]
        if state[ACTS] == 0.0:
            made[row, 0] = made[row, LEARNED - RESIDUAL] = 0.0
        fired[row] = int(state[FIRED])
        if found != FINE:
            return row + 1, found
    return end, FINE


@compiled
def _take(limits: FloatArray, now: FloatArray, confidence: float) -> tuple[int, bool, int]:
    """Clips the offer to its size; what is wrong with one that cannot be used, whether there is one, limits that fired."""
    now[WANTED] = 0.0
    if math.isnan(confidence):
        return FINE, False, _MISSING
    for i in range(now.shape[1]):
        if not math.isfinite(now[OFFER, i]):
            return NOT_FINITE, False, 0
    fired = _CONFIDENCE if confidence < 1.0 else 0
    for i in range(now.shape[1]):
        now[WANTED, i] = _clamp(now[OFFER, i], limits[SIZE, i])
        if now[WANTED, i] != now[OFFER, i]:
            fired |= _SIZE
    return FINE, True, fired


@compiled
def _aim(limits: FloatArray, rules: FloatArray, now: FloatArray, share: float) -> int:
    """What is left of the offer: its share, less what pushes towards a near position limit or along a fast motion."""
    fired = 0
    share = min(share, 1.0) if share > 0.0 else 0.0  # NaN is none
    for i in range(now.shape[1]):
        target, offset, qd = share * now[WANTED, i], now[Q, i] - limits[MIDDLE, i], now[QD, i]
        room = (limits[HALF, i] - abs(offset)) / rules[POSITION_MARGIN]
        if room < 1.0 and target * offset > 0.0:
            target *= max(0.0, room)
            fired |= _POSITION
        room = (1.0 - abs(qd) / limits[VELOCITY, i]) / rules[VELOCITY_MARGIN]
        if room < 1.0 and target * qd > 0.0:
            target *= max(0.0, room)
            fired |= _VELOCITY
        now[TARGET, i] = target
    return fired


@compiled
def _approach(limits: FloatArray, rules: FloatArray, now: FloatArray, state: FloatArray, offered: bool) -> int:
    """Moves the residual towards its target, or to zero, within the slew limit and as far as the tank pays for it.

    Over any stretch of T seconds at the control rate, the sum of positive joint powers times the period is at most
    `tank + refill T`; what the residual takes out of the arm is not credited. Because it cannot change faster than its slew
    limit, the tank always keeps what it takes to bring it to zero at the fastest speed that does not trip the arm.
    """
    residual, step, fired = now[RESIDUAL], limits[SLEW_STEP], 0
    state[ACTS] = 0.0
    for i in range(len(residual)):
        if abs(now[QD, i]) > limits[FASTEST, i]:  # there the reserve does not hold, and the arm is being braked
            residual[:] = 0.0
            state[POWER] = 0.0
            return _VELOCITY
    keep = 0.0
    if offered:
        left = state[LEVEL] - _kept(limits, residual)
        keep = min(1.0, max(0.0, left / (SOFT * rules[CAPACITY])))
        fired |= _ENERGY if keep < 1.0 else 0
    for i in range(len(residual)):
        change = keep * now[TARGET, i] - residual[i]
        now[NEXT, i] = keep * now[TARGET, i]
        if abs(change) > step[i]:
            now[NEXT, i] = residual[i] + _clamp(change, step[i])
            fired |= _SLEW if offered else 0
    power = _injected(now)
    if power * rules[PERIOD] + _kept(limits, now[NEXT]) > state[LEVEL]:  # back to zero, out of the reserve
        fired |= _ENERGY
        for i in range(len(residual)):
            now[NEXT, i] = residual[i] - _clamp(residual[i], step[i])
        power = _injected(now)
    state[LEVEL] -= power * rules[PERIOD]
    state[POWER] = power
    for i in range(len(residual)):
        residual[i] = now[NEXT, i]
        if residual[i] != 0.0:
            state[ACTS] = 1.0
    return fired


@compiled
def _kept(limits: FloatArray, residual: FloatArray) -> float:
    """What the tank keeps for bringing a residual to zero [J]."""
    kept = 0.0
    for i in range(len(residual)):
        kept += limits[RESERVE, i] * residual[i] * residual[i]
    return kept


@compiled
def _injected(now: FloatArray) -> float:
    """Sum of the positive joint powers of the next residual [W]."""
    total = 0.0
    for i in range(now.shape[1]):
        total += max(0.0, now[NEXT, i] * now[QD, i])
    return total


@compiled
def _abort(
    limits: FloatArray,
    rules: FloatArray,
    now: FloatArray,
    state: FloatArray,
    score: FloatArray,
    fired: int,
    dt: float,
) -> int:
    """Watches a residual that acts; whether it must be switched off."""
    share = dt / (WINDOW + dt)
    state[SATURATED] += share * ((1.0 if fired & _SIZE else 0.0) - state[SATURATED])
    state[SLEWING] = state[SLEWING] + dt if fired & _SLEW else 0.0
    follow, high_square = min(1.0, 2.0 * math.pi * HIGH_BAND * dt), 0.0
    for i in range(now.shape[1]):
        high = now[RESIDUAL, i] * limits[INVERSE_SIZE, i] - now[SLOW, i]
        now[SLOW, i] += follow * high
        high_square += high * high
    state[OSCILLATION] += share * (high_square - state[OSCILLATION])
    if state[SATURATED] > rules[MOST_SATURATION]:
        return SATURATED_TOO_LONG
    if state[SLEWING] > rules[LONGEST_SLEW]:
        return SLEWS_TOO_LONG
    if state[OSCILLATION] > rules[MOST_OSCILLATION]:
        return OSCILLATES
    state[STEPS_ACTING] += 1.0
    if state[STEPS_ACTING] % TRACKING_EVERY == 0:
        actual, without = math.sqrt(score[EE]), math.sqrt(score[BB])
        if actual >= TRACKING_FLOOR and actual > rules[MOST_TRACKING] * without:
            return TRACKS_WORSE
    return FINE
