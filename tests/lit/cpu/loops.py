# Condenses assembly to one line for each innermost loop: its function, its instructions by number, its stack accesses.
#
# "spilled" counts the instructions that write to the stack, which are values spilled in each step; "reloaded" counts those
# that read from it, which are values that never change if nothing is spilled.
#
#   kiln explain kernel.kir --cpu haswell --asm | python3 loops.py
#   kiln.dot.micro.f32.6x16.avx2: 12 vfmadd231ps, 6 vbroadcastss, 2 vmovups, 1 addq, 1 cmpq, 1 incq, 1 jb; 0 spilled, 0 reloaded
import collections
import re
import sys

function = ""
label_at = {}
lines = sys.stdin.read().splitlines()
for number, line in enumerate(lines):
    if label := re.match(r'"?([\w.]+)"?:', line):
        if label[1].startswith(".L"):
            label_at[label[1]] = number
        else:
            function = label[1]
        continue
    branch = re.match(r"\s+(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:.*,\s*)?(\.L\w+)", line)
    if not branch or branch[1] not in label_at:
        continue
    body = lines[label_at.pop(branch[1]) + 1 : number + 1]
    if any(re.match(r"\.LBB", inner) for inner in body):
        continue
    instructions = [text for text in body if re.match(r"\s+[a-z]", text)]
    count = collections.Counter(text.split()[0] for text in instructions)
    stack = [text for text in instructions if re.search(r"\(%rsp[,)]|\d\(%rbp\)|\[(sp|x29)\b", text)]
    spilled = sum(bool(re.match(r"\s+(st|push|k?v?mov.*, -?\d*\(%r[sb]p\S*$)", text)) for text in stack)
    parts = [f"{n} {name}" for name, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))]
    print(f"{function}: {', '.join(parts)}; {spilled} spilled, {len(stack) - spilled} reloaded")
