#!/usr/bin/env python3
"""Derives the polynomial coefficients of coefficients.h: weighted Remez exchange in 80 digits (needs mpmath).

    python3 jit/emit/math/minimax.py > jit/emit/math/coefficients.h && clang-format -i jit/emit/math/coefficients.h

Each entry fits target(x) ~ sum c_i x^i on [a, b] so that max |weight(x) (target(x) - p(x))| is least, where the
weight turns the error of the fitted factor into the relative error of the whole function. The build does not run this.
"""
import struct
from mpmath import mp, mpf, sqrt, log, exp, expm1, log1p, sin, cos, tan, atan, asin, erf, erfc, pi, tanh, lu_solve, matrix, atanh

mp.dps = 80


def remez(target, weight, degree, a, b):
    a, b, count = mpf(a), mpf(b), degree + 2
    points = [(a + b) / 2 - (b - a) / 2 * cos(pi * i / (count - 1)) for i in range(count)]
    grid = [(a + b) / 2 - (b - a) / 2 * cos(pi * i / mpf(24 * count)) for i in range(24 * count + 1)]
    step = mpf(10) ** -12 * (b - a)
    grid = [min(max(x, a + step), b - step) if abs(x) > step else step for x in grid]
    values = [(x, target(x), weight(x)) for x in grid]
    for _ in range(30):
        system, right = matrix(count, count), matrix(count, 1)
        for row, x in enumerate(points):
            x = min(max(x, a + step), b - step)
            x = x if abs(x) > step else step
            w = weight(x)
            for i in range(degree + 1):
                system[row, i] = w * x**i
            system[row, count - 1] = (-1) ** row
            right[row] = w * target(x)
        solution = lu_solve(system, right)
        c = [solution[i] for i in range(degree + 1)]
        errors = [(x, w * (t - horner(c, x))) for x, t, w in values]
        extrema = []  # the largest error of each run of one sign
        for x, e in errors:
            if extrema and (extrema[-1][1] > 0) == (e > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        worst = max(abs(e) for _, e in errors)
        if len(extrema) < count:
            break
        points = [x for x, _ in extrema]
        if worst < abs(solution[count - 1]) * mpf("1.001"):
            break
    return c, worst


def horner(c, x):
    r = mpf(0)
    for k in reversed(c):
        r = r * x + k
    return r


def literal(value, single):
    f = float(value)
    if single:
        f = struct.unpack("f", struct.pack("f", f))[0]
    return f.hex()


ln2, half_ln2 = log(2), log(2) / 2 * mpf("1.0001")
lo, hi = sqrt(mpf("0.5")) - 1, sqrt(mpf(2)) - 1
s_max = (hi / (2 + hi)) ** 2
quarter = (pi / 4 * mpf("1.01")) ** 2


def by_sqrt(function):
    return lambda z: function(sqrt(z))


def tail(a):  # Phi(-a) e^(a^2 / 2), Phi the normal distribution
    return erfc(a / sqrt(mpf(2))) / 2 * exp(a * a / 2)


def tail_by_ratio(s):  # of u = t - 1/2, t = s / (s + a), by t
    return lambda u: tail(s / (u + mpf("0.5")) - s) / (u + mpf("0.5"))


g = lambda x: -log(erfc(x))
entries = [
    # name, single, comment, target, weight, degree, a, b
    ("exp_f32", 1, "e^r = 1 + r + r^2 q(r)", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), 4, -half_ln2, half_ln2),
    ("exp_table_f32", 1, "e^r = 1 + r + r^2 q(r) between sixteenths of a power of two", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), 1, -half_ln2 / 16, half_ln2 / 16),
    ("exp2_table_f32", 1, "2^r = 1 + r ln 2 + r^2 q(r) between sixteenths of a power of two", lambda r: (expm1(r * ln2) - r * ln2) / r**2, lambda r: r**2 / exp(r * ln2), 1, -mpf(1) / 32, mpf(1) / 32),
    ("exp_wide_f32", 1, "e^r = 1 + r + r^2 q(r) for |r| <= ln 2", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), 5, -2 * half_ln2, 2 * half_ln2),
    ("exp2_wide_f32", 1, "2^r = 1 + r ln 2 + r^2 q(r) for |r| <= 1", lambda r: (expm1(r * ln2) - r * ln2) / r**2, lambda r: r**2 / exp(r * ln2), 5, -mpf("1.0001"), mpf("1.0001")),
    ("exp_f64", 0, "e^r = 1 + r + r^2 q(r)", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), 9, -half_ln2, half_ln2),
    ("expm1_f32", 1, "e^r - 1 = r + r^2 q(r)", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / expm1(r), 5, -half_ln2, half_ln2),
    ("expm1_f64", 0, "e^r - 1 = r + r^2 q(r)", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / expm1(r), 10, -half_ln2, half_ln2),
    ("exp2_f64", 0, "2^r = 1 + r q(r)", lambda r: expm1(r * ln2) / r, lambda r: r / exp(r * ln2), 11, -mpf("0.5"), mpf("0.5")),
    ("exp2_single_in_f64", 0, "2^r = 1 + r q(r), enough for a result rounded to f32", lambda r: expm1(r * ln2) / r, lambda r: r / exp(r * ln2), 6, -mpf("0.5"), mpf("0.5")),
    ("log_f32", 1, "log(1 + f) = f + f^2 q(f)", lambda f: (log1p(f) - f) / f**2, lambda f: f**2 / log1p(f), 8, lo, hi),
    ("log2_f32", 1, "log2(1 + f) = f / ln 2 + f^2 q(f)", lambda f: (log1p(f) - f) / f**2 / ln2, lambda f: ln2 * f**2 / log1p(f), 8, lo, hi),
    ("log_f64", 0, "log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2)", by_sqrt(lambda s: (2 * atanh(s) - 2 * s) / s**3), by_sqrt(lambda s: s**3 / (2 * atanh(s))), 6, mpf(10) ** -20, s_max),
    ("log_single_in_f64", 0, "log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2), enough for a result rounded to f32", by_sqrt(lambda s: (2 * atanh(s) - 2 * s) / s**3), by_sqrt(lambda s: s**3 / (2 * atanh(s))), 5, mpf(10) ** -20, s_max),
    ("log_tail_f64", 0, "log((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + s^5 q(s^2)", by_sqrt(lambda s: (2 * atanh(s) - 2 * s - 2 * s**3 / 3) / s**5), by_sqrt(lambda s: s**5 / (2 * atanh(s))), 9, mpf(10) ** -20, s_max),
    ("sin_f32", 1, "sin(r) = r + r^3 q(r^2)", by_sqrt(lambda r: (sin(r) - r) / r**3), by_sqrt(lambda r: r**3 / sin(r)), 2, mpf(10) ** -20, quarter),
    ("cos_f32", 1, "cos(r) = 1 - r^2 / 2 + r^4 q(r^2)", by_sqrt(lambda r: (cos(r) - 1 + r**2 / 2) / r**4), by_sqrt(lambda r: r**4 / cos(r)), 2, mpf(10) ** -20, quarter),
    ("sin_f64", 0, "sin(r) = r + r^3 q(r^2)", by_sqrt(lambda r: (sin(r) - r) / r**3), by_sqrt(lambda r: r**3 / sin(r)), 5, mpf(10) ** -20, quarter),
    ("cos_f64", 0, "cos(r) = 1 - r^2 / 2 + r^4 q(r^2)", by_sqrt(lambda r: (cos(r) - 1 + r**2 / 2) / r**4), by_sqrt(lambda r: r**4 / cos(r)), 5, mpf(10) ** -20, quarter),
    ("tanh_f32", 1, "tanh(x) = x + x^3 q(x^2) for |x| <= 0.625", by_sqrt(lambda x: (tanh(x) - x) / x**3), by_sqrt(lambda x: x**3 / tanh(x)), 4, mpf(10) ** -20, mpf("0.626") ** 2),
    ("erf_small_f32", 1, "erf(x) = x + x q(x^2) for |x| <= 1.125", by_sqrt(lambda x: erf(x) / x - 1), by_sqrt(lambda x: x / erf(x)), 6, mpf(10) ** -20, mpf("1.126") ** 2),
    ("erf_large_f32", 1, "erf(x) = 1 - e^(-q(x - 2.5)) for 1.125 <= x <= 4", lambda t: g(t + mpf("2.5")), lambda t: erfc(t + mpf("2.5")) / erf(t + mpf("2.5")), 6, -mpf("1.375"), mpf("1.5")),
    ("erf_small_f64", 0, "erf(x) = x + x q(x^2) for |x| <= 1.5", by_sqrt(lambda x: erf(x) / x - 1), by_sqrt(lambda x: x / erf(x)), 15, mpf(10) ** -20, mpf("2.25")),
    ("erf_large_f64", 0, "erf(x) = 1 - e^(-q(x - 3)) for 1.5 <= x <= 6", lambda t: g(t + 3), lambda t: erfc(t + 3) / erf(t + 3), 16, -mpf("1.5"), 3),
    ("gelu_f32", 1, "Phi(-a) = e^(-a^2 / 2) t q(t - 1/2), t = 2.5 / (2.5 + a), for 0 <= a <= 15", tail_by_ratio(mpf("2.5")), lambda u: 1 / tail_by_ratio(mpf("2.5"))(u), 9, mpf("2.5") / mpf("17.5") - mpf("0.5"), mpf("0.5")),
    ("gelu_f64", 0, "Phi(-a) = e^(-a^2 / 2) t q(t - 1/2), t = 3 / (3 + a), for 0 <= a <= 39", tail_by_ratio(3), lambda u: 1 / tail_by_ratio(3)(u), 23, mpf(3) / 42 - mpf("0.5"), mpf("0.5")),
    ("atan_f32", 1, "atan(x) = x + x^3 q(x^2) for |x| <= 1", by_sqrt(lambda x: (atan(x) - x) / x**3), by_sqrt(lambda x: x**3 / atan(x)), 8, mpf(10) ** -20, 1),
    ("atan_f64", 0, "atan(x) = x + x^3 q(x^2) for |x| <= tan(pi / 8)", by_sqrt(lambda x: (atan(x) - x) / x**3), by_sqrt(lambda x: x**3 / atan(x)), 10, mpf(10) ** -20, (hi * mpf("1.0001")) ** 2),
    ("asin_f32", 1, "asin(x) = x + x^3 q(x^2) for |x| <= 1/2", by_sqrt(lambda x: (asin(x) - x) / x**3), by_sqrt(lambda x: x**3 / asin(x)), 5, mpf(10) ** -20, mpf("0.25")),
    ("asin_f64", 0, "asin(x) = x + x^3 q(x^2) for |x| <= 1/2", by_sqrt(lambda x: (asin(x) - x) / x**3), by_sqrt(lambda x: x**3 / asin(x)), 12, mpf(10) ** -20, mpf("0.25")),
]

print("// Minimax polynomials of the vector math functions, lowest power first; written by minimax.py.")
print("#pragma once\n\nnamespace kiln::emit::coefficients {\n")
for name, single, comment, target, weight, degree, a, b in entries:
    c, worst = remez(target, weight, degree, a, b)
    print(f"// {comment}; relative error 2^{float(log(worst) / ln2):.1f}.")
    print(f"inline constexpr double {name}[] = {{{', '.join(literal(k, single) for k in c)}}};\n", flush=True)

# For each of 16 intervals around n w, with t = x - n w: the coefficients of erf(x) - t, the constant term first. Of the
# multiples of 1/65536 between .2535 and .2665, this w has the least error over all f32, because erf(n w) is nearly an f32
# where that matters most.
w, powers = mpf(8597) / 32768, 6
worst, columns = mpf(0), []
for n in range(16):
    if n == 0:  # relative to x, which may be small
        c, error = remez(lambda t: erf(t) / t, lambda t: t / erf(t), powers - 2, mpf(10) ** -20, w / 2)
        c = [mpf(0)] + c
    else:
        c, error = remez(lambda t: erf(n * w + t), lambda t: 1 / erf(n * w + t), powers - 1, -w / 2, w / 2)
    c[1] -= 1
    columns.append(c)
    worst = max(worst, error)
print(f"// erf(x) = t + q_n(t), t = x - n w, for 0 <= x <= 4 in intervals of length w; relative error 2^{float(log(worst) / ln2):.1f}.")
print(f"inline constexpr double erf_interval_f32 = {literal(w, 1)};")
rows = ", ".join("{" + ", ".join(literal(c[power], 1) for c in columns) + "}" for power in range(powers))
print(f"inline constexpr double erf_table_f32[{powers}][16] = {{{rows}}};\n", flush=True)
# Four intervals for each power of two of 1 + a. Their numbers are the bits of that f32 from bit 21 on, modulo 16.
powers, columns, centres, worst = 7, [None] * 16, [None] * 16, mpf(0)
for octave in range(4):
    for quarter_of_it in range(4):
        width = mpf(2) ** octave / 4
        n, centre = (127 + octave) % 4 * 4 + quarter_of_it, 2**octave + width * (quarter_of_it + mpf("0.5")) - 1
        columns[n], error = remez(lambda t: tail(centre + t), lambda t: 1 / tail(centre + t), powers - 1, -width / 2, width / 2)
        centres[n] = centre
        worst = max(worst, error)
print(f"// Phi(-a) = e^(-a^2 / 2) q_n(a - centre_n) for 0 <= a < 15; relative error 2^{float(log(worst) / ln2):.1f}.")
print(f"inline constexpr double gelu_centres_f32[16] = {{{', '.join(literal(c, 1) for c in centres)}}};")
rows = ", ".join("{" + ", ".join(literal(c[power], 1) for c in columns) + "}" for power in range(powers))
print(f"inline constexpr double gelu_table_f32[{powers}][16] = {{{rows}}};\n", flush=True)
print("} // namespace kiln::emit::coefficients")
