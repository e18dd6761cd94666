// RUN: vta-opt %s --verify-roundtrip | filecheck %s

te.intrinsic @gemm (b = 1, o = 2) reduce (k = 2) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {
^bb0(%a: i32, %x: i8, %w: i8):
  %0 = arith.extsi %x : i8 to i32
  %1 = arith.extsi %w : i8 to i32
  %2 = arith.muli %0, %1 : i32
  %3 = arith.addi %a, %2 : i32
  te.yield %3 : i32
}
// CHECK: te.intrinsic @gemm (b = 1, o = 2) reduce (k = 2) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {

te.intrinsic @reset (b = 1, o = 2) writes acc[b, o] : i32 lowers reset {
  %0 = arith.constant 0 : i32
  te.yield %0 : i32
}
// CHECK: te.intrinsic @reset (b = 1, o = 2) writes acc[b, o] : i32 lowers reset {

te.intrinsic @load (b = 1, k = 2) writes inp[b, k] : i8 with (dram[b, k] outside 0 : i8) lowers load {
^bb0(%a: i8):
  te.yield %a : i8
}
// CHECK: te.intrinsic @load (b = 1, k = 2) writes inp[b, k] : i8 with (dram[b, k] outside 0 : i8) lowers load {

te.intrinsic @mine (b = 1, o = 2) updates acc[b, o] : i32 with (acc[b, o] : i32) lowers "swap" {
^bb0(%a: i32, %c: i32):
  te.yield %c : i32
}
// CHECK: te.intrinsic @mine (b = 1, o = 2) updates acc[b, o] : i32 with (acc[b, o] : i32) lowers "swap" {

te.intrinsic @add_imm (b = 1, o = 2) updates acc[b, o] : i32 immediate -32768 to 32767 lowers add {
^bb0(%a: i32, %c: i32):
  %0 = arith.addi %a, %c : i32
  te.yield %0 : i32
}
// CHECK: te.intrinsic @add_imm (b = 1, o = 2) updates acc[b, o] : i32 immediate -32768 to 32767 lowers add {

te.kernel @k(%x: memref<8x1x2xi8, #te.scope<dram>>, %w: memref<3x2x2xi8, #te.scope<dram>>, %each: memref<4xi32, #te.scope<dram>>, %y: memref<8x1x2xi8, #te.scope<dram>>) {
  %wgt = te.alloc : memref<3x2x2xi8, #te.scope<wgt>>
  te.copy %w to %wgt
  te.for "h" [%h : %h_n] in [0 : 8] step 3 {
    %s, %s_n = te.span [%h : %h_n] + [-1 : 3] within 8
    %t, %t_n = te.span 2 * [%h : %h_n] + -1 * [%s : %s_n]
    %c, %c_n = te.span [4 : 1]
    %p, %p_n, %q, %q_n = te.unfuse [%h : %h_n] into [0 : 4] step 1, [2 : 5] step 3
    %u, %u_n = te.hull [%s : %s_n], [0 : 3], [%t : %t_n]
    %acc = te.alloc [%h : %h_n, 0 : 1, 0 : 2] slots 2 : memref<8x1x2xi32, #te.scope<acc>>
    %inp = te.alloc [%u : %u_n, 0 : 1, 0 : 2] : memref<8x1x2xi8, #te.scope<inp>>
    te.copy %x to %inp
    %pad = te.alloc : memref<11x1x2xi8, #te.scope<inp>>
    te.copy %x to %pad pads [1, 0, 0]
    te.for "h" [%i : %i_n] in [%h : %h_n] {
      te.for "b" [%b : %b_n] in [0 : 1] {
        te.update "sum" init %acc[%i, %b, 0] {
          %0 = arith.constant 0 : i32
          te.yield %0 : i32
        }
      }
    }
    te.for "t" reduce [%r : %r_n] in [0 : 3] sizes [1, 2] {
      te.for "t" reduce [%k : %k_n] in [%r : %r_n] hardware {
        te.for "h" [%j : %j_n] in [%h : %h_n] hardware {
          te.invoke @gemm "sum" %acc[%j] (%inp[%j + %k - 1], %wgt[%k])
        }
      }
    }
    te.for "h" [%l : %l_n] in [%h : %h_n] hardware {
      te.invoke @add_imm "more" %acc[%l] () immediate -5
      te.invoke @add_imm "each" %acc[%l] () immediate %each[%l - %h + 1]
    }
    te.update "odd" accumulate %acc[%h, 0, 1] ins (%inp[2 * %h - %s + 1, 0, %c] outside -3) {
    ^bb0(%a: i32, %v: i8):
      %0 = arith.extsi %v : i8 to i32
      %1 = arith.addi %a, %0 : i32
      te.yield %1 : i32
    }
    te.copy %acc to %y [%h : %h_n, 0 : 1, 0 : 2]
  }
  te.yield
}
// CHECK:      te.kernel @k(%x: memref<8x1x2xi8, #te.scope<dram>>,
// CHECK-NEXT:   %wgt = te.alloc : memref<3x2x2xi8, #te.scope<wgt>>
// CHECK-NEXT:   te.copy %w to %wgt
// CHECK-NEXT:   te.for "h" [%h : %h_n] in [0 : 8] step 3 {
// CHECK-NEXT:     %s, %s_n = te.span [%h : %h_n] + [-1 : 3] within 8
// CHECK-NEXT:     %t, %t_n = te.span 2 * [%h : %h_n] + -1 * [%s : %s_n]
// CHECK-NEXT:     %c, %c_n = te.span [4 : 1]
// CHECK-NEXT:     %p, %p_n, %q, %q_n = te.unfuse [%h : %h_n] into [0 : 4] step 1, [2 : 5] step 3
// CHECK-NEXT:     %u, %u_n = te.hull [%s : %s_n], [0 : 3], [%t : %t_n]
// CHECK-NEXT:     %acc = te.alloc [%h : %h_n, 0 : 1, 0 : 2] slots 2 : memref<8x1x2xi32, #te.scope<acc>>
// CHECK:          te.copy %x to %pad pads [1, 0, 0]
// CHECK:          te.update "sum" init %acc[%i, %b, 0] {
// CHECK:          te.for "t" reduce [%r : %r_n] in [0 : 3] sizes [1, 2] {
// CHECK-NEXT:       te.for "t" reduce [%k : %k_n] in [%r : %r_n] hardware {
// CHECK-NEXT:         te.for "h" [%j : %j_n] in [%h : %h_n] hardware {
// CHECK-NEXT:           te.invoke @gemm "sum" %acc[%j] (%inp[%j + %k - 1], %wgt[%k])
// CHECK:          te.invoke @add_imm "more" %acc[%l] () immediate -5
// CHECK-NEXT:     te.invoke @add_imm "each" %acc[%l] () immediate %each[%l - %h + 1]
// CHECK:          te.update "odd" accumulate %acc[%h, 0, 1] ins (%inp[2 * %h - %s + 1, 0, %c] outside -3) {
// CHECK:          te.copy %acc to %y [%h : %h_n, 0 : 1, 0 : 2]
