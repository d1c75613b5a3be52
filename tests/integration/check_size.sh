#!/bin/bash
# Checks that the ops stay small: check_size.sh libkiln_ops.a
#
# Prints how many kernels the ops have and the size of their code. One body of a kernel is compiled once for all dtypes, ranks and
# layouts, which is what keeps the library small: templates by dtype and rank took 70 KB for each op.
set -eu
archive=$1
limit=$((4500 * 1000)) # bytes of code and data

bytes=$(size -t "$archive" | awk 'END { print $4 }')
kernels=$(nm -C "$archive" 2>/dev/null | grep -cE ' [dDbB] kiln::ops::.*kernel$')
echo "ops: $kernels kernels, $((bytes / 1000)) KB of code and data, at most $((limit / 1000)) KB"
if ((kernels == 0)); then
  echo "no kernel was counted: their names do not end in _kernel any more" >&2
  exit 1
fi
if ((bytes > limit)); then
  echo "the ops are larger than that; record by dtype at run time (ops/detail/op_kernel.h) instead of by templates" >&2
  exit 1
fi
