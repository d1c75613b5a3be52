#!/usr/bin/env python3
"""Compares Kiln's machine code with that of nvcc for the same kernels and block shapes: the number of instructions
on the path of a block whose tile lies inside the tensors, and the widths of its accesses.

  compare_sass.py KILN SOURCE_DIR WORK_DIR      exits with 77 if there is no nvcc or ptxas

No disassembler is needed, because an instruction has 16 bytes, of which 12 bits are the opcode. The path is the
shortest one from entry to exit that moves all data in 16-byte accesses.
"""
import collections
import os
import shutil
import struct
import subprocess
import sys

ARCH = "sm_90a"
LDG, STG, BRA, EXIT, BAR, NOP = 0x981, 0x986, 0x947, 0x94D, 0xB1D, 0x918

# kernel, what `kiln ptx` takes, 16-byte loads and stores of each thread
KERNELS = [
    ("vector_add", ["tests/lit/gpu/vector_add.kir", "--config", "B=1024", "--layouts", "aligned,aligned,aligned"], 4, 2),
    ("softmax", ["tests/lit/gpu/softmax.kir", "--config", "BN=4096", "--layouts", "aligned,aligned"], 8, 8),
    ("layernorm", ["tests/lit/gpu/layernorm.kir", "--config", "BN=4096", "--layouts", "aligned,aligned,aligned,aligned"], 24, 8),
]


def find(tool):
    found = shutil.which(tool) or shutil.which(tool, path="/usr/local/cuda/bin")
    if not found:
        print(f"skipped: there is no {tool} here")
        sys.exit(77)
    return found


def code_of(cubin):
    """The instructions of the only kernel in an ELF file, as pairs of 64-bit words."""
    data = open(cubin, "rb").read()
    shoff, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, shoff + i * size) for i in range(count)]
    names_at = headers[names][4]
    for name, _, _, _, offset, length in headers:
        at = names_at + name
        if data[at:data.index(b"\0", at)].startswith(b".text."):
            return [struct.unpack_from("<QQ", data, offset + i) for i in range(0, length, 16)]
    raise SystemExit(f"{cubin} has no kernel")


def opcode(word):
    return word[0] & 0xFFF


def bytes_of(word):
    return {4: 4, 5: 8, 6: 16}.get(word[1] >> 9 & 7, 1)


def target(word, at):
    high = word[0] >> 34 | (word[1] & 0x3FFFF) << 30
    if high >> 47:
        high -= 1 << 48
    return at + 1 + (high << 8 | word[0] >> 16 & 0xFF) * 4 // 16


def always(word):
    return word[0] >> 12 & 0xF == 7 and word[1] >> 23 & 7 == 7


def shortest_path(code, loads, stores):
    """The instructions on the path, or None: a breadth-first search over (instruction, accesses so far)."""
    start = (0, 0, 0)
    came = {start: None}
    queue = collections.deque([start])
    while queue:
        state = queue.popleft()
        at, l, s = state
        word = code[at]
        op = opcode(word)
        if op == EXIT and (l, s) == (loads, stores):
            path = []
            while state:
                path.append(state[0])
                state = came[state]
            return path[::-1]
        l += op == LDG and bytes_of(word) == 16
        s += op == STG and bytes_of(word) == 16
        following = []
        if not (op in (EXIT, BRA) and always(word)):
            following.append(at + 1)
        if op == BRA:
            following.append(target(word, at))
        for n in following:
            if 0 <= n < len(code) and l <= loads and s <= stores and (n, l, s) not in came:
                came[(n, l, s)] = state
                queue.append((n, l, s))
    return None


def main():
    kiln, source, work = sys.argv[1:4]
    nvcc, ptxas = find("nvcc"), find("ptxas")
    os.makedirs(work, exist_ok=True)
    worse = []
    print(f"{'':12}{'':>8}{'path':>8}{'in all':>8}{'ld.128':>8}{'st.128':>8}{'barriers':>10}")
    for name, arguments, loads, stores in KERNELS:
        theirs, ours = f"{work}/{name}.nvcc.cubin", f"{work}/{name}.kiln.cubin"
        subprocess.run([nvcc, "-O3", "-arch", ARCH, "-cubin", f"{source}/tests/jit/gpu/cuda/{name}.cu", "-o", theirs], check=True)
        ptx = subprocess.run([kiln, "ptx", *arguments, "--arch", ARCH, "--no-report"], cwd=source, check=True, capture_output=True, text=True).stdout
        open(f"{work}/{name}.ptx", "w").write(ptx)
        subprocess.run([ptxas, "-arch", ARCH, f"{work}/{name}.ptx", "-o", ours], check=True)
        lengths = []
        for who, cubin in (("nvcc", theirs), ("kiln", ours)):
            code = code_of(cubin)
            path = shortest_path(code, loads, stores)
            if path is None:
                worse.append(f"{name}: {who} has no path with {loads} loads and {stores} stores of 16 bytes")
                continue
            words = [code[i] for i in path]
            lengths.append(len(words))
            print(f"{name:12}{who:>8}{len(words):8}{sum(opcode(w) != NOP for w in code):8}{loads:8}{stores:8}"
                  f"{sum(opcode(w) == BAR for w in words):10}")
        if len(lengths) == 2 and lengths[1] > lengths[0]:
            worse.append(f"{name}: {lengths[1]} instructions, and nvcc needs {lengths[0]}")
    for line in worse:
        print("WORSE", line)
    sys.exit(1 if worse else 0)


main()
