#!/usr/bin/env python3
# Draws dot_layouts.svg: which lane and register holds each element of a dot's operand and accumulator.
#   kiln explain linear --config BM=16,BN=16,BK=16,num_warps=1 --json | jit/gpu/dot_layouts.py > jit/gpu/dot_layouts.svg
import json
import re
import sys

CELL, LEFT, TOP, GAP = 26, 16, 62, 40
SIZE = 16  # rows and columns of each tile


def tiles(explanation):
    """The layouts of the tile that the dot reads and of the tile that it accumulates, as the pictures of `kiln explain`."""
    tile_ir = explanation["passes"][-1]["tile_ir"]
    result, operand = re.search(r"(%\d+) = dot (%\d+),", tile_ir).groups()
    for value in operand, result:
        for layout in explanation["gpu_layouts"]:
            if any(tile.startswith(value + ":") for tile in layout["tiles"]):
                yield layout["picture"]


def cells(picture):
    """(row, first column, last column, lane, registers) of each run of elements in one lane."""
    head, *rows = picture.rstrip("\n").split("\n")
    spans = [tuple(map(int, span.split("-"))) for span in head.split()[3:]]
    for row in rows:
        number, *places = re.split(r"\s{2,}", row.strip())
        for (first, last), place in zip(spans, places, strict=True):
            lane, registers = place.split()
            yield int(number), first, last, int(lane[1:]), registers


def panel(left, title, subtitle, picture):
    yield f'<text x="{left}" y="22" class="title">{title}</text><text x="{left}" y="42" class="subtitle">{subtitle}</text>'
    for row, first, last, lane, registers in cells(picture):
        x, y, width = left + first * CELL, TOP + row * CELL, (last - first + 1) * CELL
        colour = f"hsl({lane * 360 // 32}, 70%, {84 if lane % 2 else 78}%)"
        yield f'<rect x="{x}" y="{y}" width="{width}" height="{CELL}" style="fill: {colour}"/>'
        yield f'<text x="{x + width / 2:g}" y="{y + 16}" class="place">l{lane} {registers}</text>'


operand, accumulator = tiles(json.load(sys.stdin))
second = LEFT + SIZE * CELL + GAP
width, height = second + SIZE * CELL + LEFT, TOP + SIZE * CELL + LEFT
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">')
print("<style>text {font-family: system-ui, sans-serif; fill: #1b2333} .title {font-size: 17px; font-weight: 600}"
      " .subtitle {font-size: 13px; fill: #55607a} .place {font-size: 11px; text-anchor: middle}"
      " rect {stroke: #ffffff; stroke-width: 1.5}</style>")
print(f'<rect width="{width}" height="{height}" style="fill: #f6f7f9; stroke: none"/>')
for line in panel(LEFT, "an operand, 16 x 16 bf16, as it is loaded", "each lane loads 8 neighbours: 16 bytes", operand):
    print(line)
for line in panel(second, "the accumulator, 16 x 16 f32", "as mma.sync leaves it: 2 neighbours in each 8 x 8 part", accumulator):
    print(line)
print("</svg>")
