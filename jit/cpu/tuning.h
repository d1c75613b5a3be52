// Lists the constants of generated code, launches and ops whose values were tuned on particular CPUs, with
// what was measured.
//
// The constants are grouped by topic:
//
//   tuning/cpus.h             properties of CPUs that neither LLVM nor the system reports
//   tuning/loops.h            which tiles live in memory, sizes of tiles, vector loops, prefetching
//   tuning/products.h         matrix products: register tiles, chunks, packing
//   tuning/skinny_products.h  skinny products, which take longer to read B than to multiply
//   tuning/groups.h           products that programs share
//   tuning/ops.h              tile sizes of the ops where no tuned config is known
//
// Above each constant stands a comment that says what it decides, and then one row of four columns:
//
//   unit | CPU that it was measured on | what was measured | date of the measurement
//
// The third column says what the constant gains over another value ("2 % more time with 8"), or why there is
// no figure: "derived: ..." names the facts from which a value follows, and "not measured: ..." the reasoning
// behind it; such rows have "-" in place of a CPU. A CPU in parentheses is inferred from results that were
// stored shortly before or after the measurement, whose own record names none. Constants that were measured
// together share a row. Times are of one thread unless a row says otherwise. Rows of 2026-11-28 compare the
// fastest of many launches, in four to eight processes for each value, in alternation.
//
// "1000 cubed" is a product of matrices of 1000 x 1000, and m x n x k is a product of m rows and n columns
// with a depth of k. Elements are f32 unless a row names another type. "AVX2 code" and "SSE code" mean that
// KILN_CPU made a CPU with AVX-512 run the code of older ones.
//
// A new value must be measured on the CPU of its row as well, and needs a new row. If it changes generated
// code, and not only launches (reused_bytes) or ops, increase code_generation_version. tests/lit/cpu/tuning.test checks
// the form of the rows, and that each name is used.
//
// Sizes that follow from an instruction set (rows of an AMX register), limits that protect the compiler (the
// depth of an expression) and formats are not tuned; they are defined where they are used.
#pragma once

#include <kiln/jit/cpu/tuning/cpus.h>
#include <kiln/jit/cpu/tuning/groups.h>
#include <kiln/jit/cpu/tuning/loops.h>
#include <kiln/jit/cpu/tuning/ops.h>
#include <kiln/jit/cpu/tuning/products.h>
#include <kiln/jit/cpu/tuning/skinny_products.h>
