// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule,te-to-vta --split-input-file --verify-diagnostics | filecheck %s

// Each of six elements has a shift of its own, in a table that two calls of the kernel fill. An
// instruction ends where the amount changes; the tables themselves are in no buffer.
// CHECK-LABEL: vta.program @f
// CHECK-NOT:     vta.buffer @table
// CHECK:         vta.alu shr %{{.*}} imm 2 micro_ops <[0, 0, 0]> loops [3, 1] dst [1, 0] src [1, 0]
// CHECK-NEXT:    vta.alu shr %{{.*}} imm -5 micro_ops <[3, 3, 0]> loops [1, 1]
// CHECK-NEXT:    vta.alu shr %{{.*}} imm 2 micro_ops <[4, 4, 0]> loops [2, 1] dst [1, 0] src [1, 0]
// CHECK-NEXT:    vta.store
// CHECK:         vta.alu shr %{{.*}} imm 7 micro_ops <[0, 0, 0]> loops [6, 1] dst [1, 0] src [1, 0]
// CHECK-NEXT:    vta.store
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<6x1x16xi8>) -> tensor<6x1x16xi8> attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<16x16xi8>
    %t = te.constant dense<[2, 2, 2, -5, 2, 2]> : tensor<6xi32>
    %u = te.constant dense<7> : tensor<6xi32>
    %y = te.call @k(%x, %w, %t) : (tensor<6x1x16xi8>, tensor<16x16xi8>, tensor<6xi32>) -> tensor<6x1x16xi8>
    %z = te.call @k(%y, %w, %u) : (tensor<6x1x16xi8>, tensor<16x16xi8>, tensor<6xi32>) -> tensor<6x1x16xi8>
    func.return %z : tensor<6x1x16xi8>
  }
  te.kernel @k(%x: tensor<6x1x16xi8>, %w: tensor<16x16xi8>, %table: tensor<6xi32>) -> tensor<6x1x16xi8> {
    %p = te.compute "p" (h = 6, b = 1, o = 16) reduce (k = 16)
        ins (%x[h, b, k] : tensor<6x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<6x1x16xi32>
    %s = te.compute "s" (h = 6, b = 1, o = 16)
        ins (%p[h, b, o] : tensor<6x1x16xi32>, %table[h] : tensor<6xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<6x1x16xi32>
    %q = te.compute "q" (h = 6, b = 1, o = 16) ins (%s[h, b, o] : tensor<6x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<6x1x16xi8>
    te.yield %q : tensor<6x1x16xi8>
  }
  te.schedule @k {
  ^bb0(%p: !te.stage, %s: !te.stage, %q: !te.stage):
    te.set_scope %p scope <acc> slots 1
    te.set_scope %s scope <acc> slots 1
    te.in_place %s operand 0
    %xc = te.cache_read %p operand 0 scope <inp> slots 1
    %wc = te.cache_read %p operand 1 scope <wgt> slots 1
    %h, %b, %o = te.axes %q (h, b, o)
    te.dma %q at %h
    %h0, %b0, %o0, %k0 = te.axes %p (h, b, o, k)
    te.tensorize %p at %h0 by [@gemm]
    %i = te.init %p
    %h1, %b1, %o1 = te.axes %i (h, b, o)
    te.tensorize %i at %h1 by [@reset]
    %h2, %b2, %o2 = te.axes %s (h, b, o)
    te.tensorize %s at %h2 by [@shr_imm]
  }
}

// -----

// Accumulators start from a vector: an immediate operation that reads another element.
// CHECK-LABEL: vta.program @f
// CHECK:         %[[V:.*]] = vta.alloc site {{.*}} slots 1 size 2 : !vta.sram<acc>
// CHECK-NEXT:    vta.load acc %[[V]] sram 0 from @v
// CHECK:         vta.alu add %{{.*}}, %[[V]] imm 0 micro_ops <[0, 0, 0]> loops [2, 6] dst [6, 1] src [1, 0]
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x6x1x16xi8>) -> tensor<2x6x1x16xi8> attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<16x16xi8>
    %v = te.constant dense<7> : tensor<2x1x16xi32>
    %y = te.call @k(%x, %w, %v) : (tensor<2x6x1x16xi8>, tensor<16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x6x1x16xi8>
    func.return %y : tensor<2x6x1x16xi8>
  }
  te.kernel @k(%x: tensor<2x6x1x16xi8>, %w: tensor<16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x6x1x16xi8> {
    %s = te.compute "s" (c = 2, h = 6, b = 1, o = 16) ins (%v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32):
      te.yield %a : i32
    } -> tensor<2x6x1x16xi32>
    %p = te.compute "p" (c = 2, h = 6, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, h, b, k] : tensor<2x6x1x16xi8>, %w[o, k] : tensor<16x16xi8>) init %s : tensor<2x6x1x16xi32> {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x6x1x16xi32>
    %q = te.compute "q" (c = 2, h = 6, b = 1, o = 16) ins (%p[c, h, b, o] : tensor<2x6x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<2x6x1x16xi8>
    te.yield %q : tensor<2x6x1x16xi8>
  }
  te.schedule @k {
  ^bb0(%s: !te.stage, %p: !te.stage, %q: !te.stage):
    te.set_scope %s scope <acc> slots 1
    te.set_scope %p scope <acc> slots 1
    %i = te.init %p
    te.in_place %i operand 0
    %xc = te.cache_read %p operand 0 scope <inp> slots 1
    %wc = te.cache_read %p operand 1 scope <wgt> slots 1
    %vc = te.cache_read %s operand 0 scope <acc> slots 1
    %c, %h, %b, %o = te.axes %q (c, h, b, o)
    te.dma %q at %c
    %c0, %h0, %b0, %o0, %k0 = te.axes %p (c, h, b, o, k)
    te.tensorize %p at %c0 by [@gemm]
    %c1, %h1, %b1, %o1 = te.axes %s (c, h, b, o)
    te.tensorize %s at %c1 by [@copy]
  }
}

// -----

// An amount a lane is no immediate.
// CHECK: stage "s" is not reset, add, shr_imm: the immediate of @shr_imm differs between lanes
// CHECK-NEXT: use the intrinsic with two operands
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  te.kernel @k(%w: tensor<16x16xi8>, %x: tensor<1x16xi8>, %table: tensor<16xi32>) -> tensor<1x16xi32> {
    %p = te.compute "p" (b = 1, o = 16) reduce (k = 16)
        ins (%x[b, k] : tensor<1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x16xi32>
    %s = te.compute "s" (h = 2, b = 1, o = 16)
        ins (%p[b, o] : tensor<1x16xi32>, %table[o] : tensor<16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x1x16xi32>
    %t = te.compute "t" (b = 1, o = 16) ins (%s[1, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32):
      te.yield %a : i32
    } -> tensor<1x16xi32>
    te.yield %t : tensor<1x16xi32>
  }
  te.schedule @k {
  ^bb0(%p: !te.stage, %s: !te.stage, %t: !te.stage):
    te.set_scope %p scope <acc> slots 1
    te.set_scope %s scope <acc> slots 1
    %h, %b, %o = te.axes %s (h, b, o)
    te.tensorize %s at %h by [@reset, @add, @shr_imm]
  }
}
