"""GIST as plain loops: every sum is written out, the Fourier transform too."""

import cmath
import math

import numpy as np


def _transformed(image, sign):
    n = len(image)
    turn = [[cmath.exp(sign * 2j * math.pi * i * k / n) for k in range(n)] for i in range(n)]
    rows = [[sum(image[i][x] * turn[x][k] for x in range(n)) for k in range(n)] for i in range(n)]
    return [[sum(rows[y][k] * turn[y][i] for y in range(n)) for k in range(n)] for i in range(n)]


def _filtered(image, transfer):
    n = len(image)
    whole = [k if k < n / 2 else k - n for k in range(n)]
    spectrum = _transformed(image, -1)
    product = [[spectrum[i][k] * transfer(whole[k], whole[i]) for k in range(n)] for i in range(n)]
    return [[value / n**2 for value in row] for row in _transformed(product, 1)]


def _mirrored(image, by):
    n = len(image)

    def inside(place):
        place %= 2 * n
        return place if place < n else 2 * n - 1 - place

    return [[image[inside(i)][inside(k)] for k in range(-by, n + by)] for i in range(-by, n + by)]


def plain_gist(image, n_orientations, n_fields):
    size = len(image)

    def low(x, y):
        return math.exp(-(x**2 + y**2) / (4 / math.sqrt(math.log(2))) ** 2)

    padded = _mirrored([[math.log(1 + value) for value in row] for row in image], 5)
    smooth = _filtered(padded, low)
    n = len(padded)
    detail = [[padded[i][k] - smooth[i][k].real for k in range(n)] for i in range(n)]
    squares = _filtered([[value**2 for value in row] for row in detail], low)
    even = [
        [detail[i][k] / (0.2 + math.sqrt(abs(squares[i][k].real))) for k in range(5, 5 + size)]
        for i in range(5, 5 + size)
    ]
    wide = _mirrored(even, 32)
    total, found, side = len(wide), [], size // n_fields
    for scale, count in enumerate(n_orientations):
        for number in range(count):

            def gabor(x, y, scale=scale, number=number, count=count):
                turned = math.atan2(y, x) + math.pi * number / count
                while turned >= math.pi:
                    turned -= 2 * math.pi
                radial = (math.hypot(x, y) / total / (0.3 / 1.85**scale) - 1) ** 2
                return math.exp(-10 * 0.35 * radial - 2 * math.pi * (16 * count**2 / 32**2) * turned**2)

            response = _filtered(wide, gabor)
            for across in range(n_fields):
                for down in range(n_fields):
                    cells = [
                        abs(response[32 + i][32 + k])
                        for i in range(down * side, (down + 1) * side)
                        for k in range(across * side, (across + 1) * side)
                    ]
                    found.append(sum(cells) / len(cells))
    return np.array(found)
