// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// tensorize says where a match fails. A sum is no product.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi32> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h, b, k] : tensor<4x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.addi %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  te.yield %x : tensor<4x1x16xi32>
}
te.schedule @k {
^bb0(%x: !te.stage):
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 2 (te.tensorize): stage "x" is not gemm: the statement is add(destination, ext(operand 0), ext(operand 1)), but @gemm is add(destination, mul(ext(source 0), ext(source 1)))

// -----
// Operands in other memories.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h, b, k] : tensor<4x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %q: !te.stage):
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 2 (te.tensorize): stage "x" is not gemm: operand 0 of @gemm is in acc, the buffer %x is in dram
// CHECK: choose scopes by set_scope and cache_read before

// -----
// The weights are read transposed: their rows are the reduction.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h, b, k] : tensor<4x1x16xi8>, %w[k, o] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  %pc = te.cache_read %x operand 0 scope <inp> slots 1
  %wc = te.cache_read %x operand 1 scope <wgt> slots 1
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 5 (te.tensorize): stage "x" is not gemm: operand 2 of @gemm is subscripted by "k" where another operand has "o"

// -----
// A lane loop is split.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h, b, k] : tensor<4x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  %pc = te.cache_read %x operand 0 scope <inp> slots 1
  %wc = te.cache_read %x operand 1 scope <wgt> slots 1
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  %ko, %ki = te.split %k factor 4
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 6 (te.tensorize): stage "x" is not gemm: a lane dimension of operand 1 of @gemm is not subscripted by one loop over [0, 16)
// CHECK: do not split or move the loops of the last two dimensions

// -----
// Outside, the operand is no zero, so the product changes the sum.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h - 1, b, k] outside 1 : tensor<4x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  %pc = te.cache_read %x operand 0 scope <inp> slots 1
  %wc = te.cache_read %x operand 1 scope <wgt> slots 1
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 5 (te.tensorize): stage "x" is not gemm: operand 0 yields 1 outside its shape, which would change the destination to add(destination, ext(operand 1)), so the read cannot be left out

// -----
// The operations differ.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi32>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) ins (%p[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4x1x16xi32>
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 5 : i32
    %0 = arith.maxsi %a, %c : i32
    %1 = arith.addi %0, %c : i32
    te.yield %1 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%y[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %y: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  te.set_scope %y scope <acc> slots 1
  te.in_place %y operand 0
  %h, %b, %o = te.axes %y (h, b, o)
  te.tensorize %y at %h by [@min_imm, @add_imm]
}
}
// CHECK: te.schedule @k, step 5 (te.tensorize): stage "y" is not min_imm, add_imm: the statement is add(5, max(5, destination)), but @min_imm, @add_imm is add(immediate 1, min(destination, immediate 0)); it has max(5, destination) for min(destination, immediate 0)

// -----
// An immediate has 16 bits.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi32>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) ins (%p[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4x1x16xi32>
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 40000 : i32
    %0 = arith.addi %a, %c : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%y[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %y: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  te.set_scope %y scope <acc> slots 1
  te.in_place %y operand 0
  %h, %b, %o = te.axes %y (h, b, o)
  te.tensorize %y at %h by [@add_imm]
}
}
// CHECK: te.schedule @k, step 5 (te.tensorize): stage "y" is not add_imm: the constant 40000 is not within -32768 to 32767, the immediates of @add_imm

// -----
// The ALU writes over its first operand.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi32>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) ins (%p[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4x1x16xi32>
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 4 : i32
    %0 = arith.addi %a, %c : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%y[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %y: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  te.set_scope %y scope <acc> slots 1
  %h, %b, %o = te.axes %y (h, b, o)
  te.tensorize %y at %h by [@add_imm]
}
}
// CHECK: te.schedule @k, step 4 (te.tensorize): stage "y" is not add_imm: the statement is add(4, operand 0), but @add_imm is add(destination, immediate 0); it has operand 0 for destination
// CHECK: the intrinsic updates its destination: share the operand's buffer first (in_place)

// -----
// An accumulator cannot be kept in INP: no load brings 32 bits there.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi32>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) ins (%p[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4x1x16xi32>
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 4 : i32
    %0 = arith.addi %a, %c : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%y[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %y: !te.stage, %q: !te.stage):
  %c = te.cache_read %x operand 0 scope <inp> slots 1
}
}
// CHECK: te.schedule @k, step 1 (te.cache_read): memref<4x1x16xi32, #te.scope<dram>> is not loaded into inp: declared is @load_inp, elements of (1, 16) i8
// CHECK: choose another scope
