// Includes all of Kiln: the language, devices and tensors, the tuner, and the prebuilt ops.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/base/version.h>
#include <kiln/jit/runtime/assign/assign.h>
#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/event.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/jit/runtime/stream.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/jit/runtime/tensor_view.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/grouped_matmul.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/matmul_backward.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/rotary.h>
#include <kiln/ops/routing.h>
#include <kiln/ops/softmax.h>
#include <kiln/ops/tunable_call.h>

// This include must come last. For each error in a language header, compilers print the chain of #include
// lines that led to that header; included first, tuned.h would be part of that chain.
#include <kiln/autotune/tuned.h>
