// Lists the elementwise functions of floats as X(function, opcode), for code that needs all of them.
#pragma once

#define KILN_FLOAT_FUNCTIONS(X)                                                                              \
  X(exp, Exp)                                                                                                \
  X(exp2, Exp2)                                                                                              \
  X(expm1, Expm1)                                                                                            \
  X(log, Log)                                                                                                \
  X(log2, Log2)                                                                                              \
  X(log1p, Log1p)                                                                                            \
  X(sin, Sin)                                                                                                \
  X(cos, Cos)                                                                                                \
  X(tan, Tan)                                                                                                \
  X(tanh, Tanh)                                                                                              \
  X(erf, Erf)                                                                                                \
  X(sigmoid, Sigmoid)                                                                                        \
  X(gelu, Gelu)                                                                                              \
  X(sqrt, Sqrt)                                                                                              \
  X(rsqrt, Rsqrt)                                                                                            \
  X(floor, Floor)                                                                                            \
  X(ceil, Ceil)                                                                                              \
  X(trunc, Trunc)                                                                                            \
  X(round, Round)
#define KILN_FLOAT_BINARY_FUNCTIONS(X)                                                                       \
  X(pow, Pow)                                                                                                \
  X(atan2, Atan2)
