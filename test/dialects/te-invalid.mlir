// RUN: vta-opt %s --split-input-file --verify-diagnostics | filecheck %s

te.kernel @k(%x: tensor<4x1x2xi8>) -> tensor<4x1x2xi8> {
  %y = te.compute "y" (h = 4, b = 1, o = 2) ins (%x[h + 1, b, o] : tensor<4x1x2xi8>) {
  ^bb0(%a: i8):
    te.yield %a : i8
  } -> tensor<4x1x2xi8>
  te.yield %y : tensor<4x1x2xi8>
}
// CHECK: operand 0 is read at 1 to 4 in dimension 0 of 4, but has no outside value

// -----
te.kernel @k(%x: tensor<4x2xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) reduce (k = 2) ins (%x[h, k] : tensor<4x2xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.muli %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK: a reduction yields addi, maxsi or minsi of its accumulator, and uses that only there

// -----
te.kernel @k(%x: tensor<4x2xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) reduce (k = 2) ins (%x[h, k] : tensor<4x2xi32>) {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK: a reduction starts from an identity or an init, anything else from neither

// -----
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.divsi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK: arith.divsi is not allowed in a scalar body

// -----
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    te.yield %a : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK: the body must take (i32), not (i32, i32)

// -----
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4xi32>
  %z = te.compute "y" (h = 4) ins (%y[h] : tensor<4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4xi32>
  te.yield %z : tensor<4xi32>
}
// CHECK: two computes are called y

// -----
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi8> {
  te.yield %x : tensor<4xi32>
}
// CHECK: te.yield must return the kernel's results

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
func.func @f(%x: tensor<4xi32>) {
  %y = te.call @k(%x) : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}
// CHECK: the call of @k does not fit (memref<4xi32>) -> ()

// -----
func.func @f() {
  te.call @k() : () -> ()
  func.return
}
// CHECK: there is no te.kernel @k

// -----
te.schedule @k {
^bb0(%s: !te.stage):
}
// CHECK: there is no te.kernel @k

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
te.schedule @k {
^bb0(%s: !te.stage):
  %h = te.axes %s (h)
  %ho, %hi = te.split %h factor 2
  te.unroll %h
}
// CHECK: te.unroll uses the handle %h, which te.split has used up

// -----
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
te.schedule @k {
^bb0(%s: !te.stage, %t: !te.stage):
}
// CHECK: @k has 1 computes, its schedule 2

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
te.schedule @k {
^bb0(%s: !te.stage):
  %h = te.axes %s (h)
  %ho, %hi = te.split %h
}
// CHECK: a split has a factor or sizes

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
te.schedule @k {
^bb0(%s: !te.stage):
  %h = te.axes %s (h)
  te.reorder %h, %h
}
// CHECK: an axis stands twice in the new order

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
te.schedule @k {
^bb0(%s: !te.stage):
  %h = te.axes %s (h)
  %a, %b, %c, %d = te.tile %h, %h factors [2, 2]
}
// CHECK: tile takes two different axes

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.yield
}
te.schedule @k {
^bb0(%s: !te.stage):
  %h = te.axes %s (h)
  te.tensorize %s at %h by []
}
// CHECK: tensorize needs an intrinsic

// -----
te.intrinsic @i (b = 1, o = 2) writes acc[b] : i32 lowers reset {
  %0 = arith.constant 0 : i32
  te.yield %0 : i32
}
// CHECK: the destination is subscripted by each spatial axis once

// -----
te.intrinsic @i (b = 1) reduce (k = 2) writes acc[b] : i32 with (inp[b, k] : i32) lowers gemm {
^bb0(%a: i32):
  te.yield %a : i32
}
// CHECK: an intrinsic that reduces updates its destination

// -----
te.for "h" [%h : %h_n] in [0 : 4] sizes [1, 2] {
}
// CHECK: sizes [1, 2] must be positive and fill a known range

// -----
te.for "h" [%h : %h_n] in [0 : 4] step 0 {
}
// CHECK: a step is at least 1

// -----
%s, %n = te.span [0 : 0]
// CHECK: extra and within are at least 1

// -----
%b = te.alloc [0 : 4] : memref<4x2xi8, #te.scope<inp>>
// CHECK: the window has 1 ranges, the buffer 2

// -----
%b = te.alloc [0 : 4, 1 : 2] : memref<4x2xi8, #te.scope<inp>>
// CHECK: range 1 : 2 leaves the dimension of 2

// -----
%b = te.alloc slots 0 : memref<4xi8, #te.scope<inp>>
// CHECK: a buffer has at least one slot

// -----
%a = te.alloc : memref<4xi8, #te.scope<dram>>
%b = te.alloc : memref<5xi8, #te.scope<inp>>
te.copy %a to %b
// CHECK: changes the shape

// -----
%a = te.alloc : memref<4xi8, #te.scope<dram>>
%b = te.alloc : memref<4xi32, #te.scope<acc>>
te.copy %a to %b
// CHECK: a load of i8 as i32

// -----
%a = te.alloc : memref<4x2xi32, #te.scope<acc>>
te.update "y" %a[0] {
  %0 = arith.constant 0 : i32
  te.yield %0 : i32
}
// CHECK: map 0 must take 0 indices and give 2 subscripts

// -----
%a = te.alloc : memref<4x1x2xi32, #te.scope<acc>>
te.invoke @none "y" %a[0] ()
// CHECK: there is no te.intrinsic @none

// -----
te.intrinsic @add_imm (b = 1, o = 2) updates acc[b, o] : i32 immediate -4 to 3 lowers add {
^bb0(%a: i32, %c: i32):
  %0 = arith.addi %a, %c : i32
  te.yield %0 : i32
}
%a = te.alloc : memref<4x1x2xi32, #te.scope<acc>>
te.invoke @add_imm "y" %a[0] () immediate 4
// CHECK: immediate 4 of @add_imm is not within -4 to 3

// -----
te.intrinsic @add_imm (b = 1, o = 2) updates acc[b, o] : i32 immediate -4 to 3 lowers add {
^bb0(%a: i32, %c: i32):
  %0 = arith.addi %a, %c : i32
  te.yield %0 : i32
}
%a = te.alloc : memref<4x1x2xi32, #te.scope<acc>>
%t = te.alloc : memref<4xi32, #te.scope<dram>>
te.invoke @add_imm "y" %a[0] () immediate %t[0]
// CHECK: a table of immediates is a parameter of the kernel

// -----
te.intrinsic @reset (b = 1, o = 2) writes acc[b, o] : i32 lowers reset {
  %0 = arith.constant 0 : i32
  te.yield %0 : i32
}
%a = te.alloc : memref<4x1x2xi32, #te.scope<inp>>
te.invoke @reset "y" %a[0] ()
// CHECK: operand 0 of @reset is i32 in acc, not i32 in inp

// -----
te.intrinsic @reset (b = 1, o = 2) writes acc[b, o] : i32 lowers reset {
  %0 = arith.constant 0 : i32
  te.yield %0 : i32
}
%a = te.alloc : memref<4x2x2xi32, #te.scope<acc>>
te.invoke @reset "y" %a[0] ()
// CHECK: operand 0 of @reset ends in (1, 2)

// -----
te.kernel @k(%w: memref<3x4xi8, #te.packed<cut (0 by [1, 1])>, #te.scope<dram>>) {
  te.yield
}
// CHECK: slices of [1, 1] do not fill the 3 of a dimension

// -----
te.kernel @k(%w: memref<3x4xi8, #te.packed<cut (2 by 1)>, #te.scope<dram>>) {
  te.yield
}
// CHECK: a cut along dimension 2 of 2

// -----
te.kernel @k(%w: memref<3x4xi8, #te.packed<[0 : 3]>, #te.scope<dram>>) {
  te.yield
}
// CHECK: a box of 1 dimensions in a tensor of 2

// -----
te.kernel @k(%w: memref<3x4xi8, #te.packed<[0 : 3, 1 : 4]>, #te.scope<dram>>) {
  te.yield
}
// CHECK: range 1 : 4 of a box leaves the dimension of 4

// -----
%b = te.alloc : memref<3x4xi8, #te.packed<cut (0 by 0)>, #te.scope<dram>>
// CHECK: a packed layout has at least one region, a slice at least size 1

// -----
%b = te.alloc : memref<3x4xi8, #te.packed<cut (1 by 2)>, #te.scope<dram>>
// CHECK: only parameters of a kernel are packed

// -----
func.func private @f(%w: tensor<3x4xi8>) {
  te.call @k(%w) : (tensor<3x4xi8>) -> ()
  func.return
}
te.kernel @k(%w: memref<3x4xi8, #te.packed<cut (1 by 2)>, #te.scope<dram>>) {
  te.yield
}
// CHECK: the call of @k does not fit

// -----
te.kernel @k(%x: tensor<4xi8>) -> tensor<4xi8> {
  %q = te.compute "up" (h = 4) ins (%x[(h + 1) / 2] : tensor<4xi8>) {
  ^bb0(%a: i8):
    te.yield %a : i8
  } -> tensor<4xi8>
  te.yield %q : tensor<4xi8>
}
// CHECK: operand 0 is read at a quotient in dimension 0, which may leave a remainder, but has no outside value

// -----
func.func @f(%x: tensor<4xi8> {te.layout = #te.layout<"x"[4] at [d, d] over (d = 4)>}) {
  func.return
}
// CHECK: 2 subscripts for the 1 dimensions of "x"

// -----
func.func @f(%x: tensor<4xi8> {te.layout = #te.layout<"x"[4] at [d] over (d = 4, e = 2) in 6>}) {
  func.return
}
// CHECK: the axes (d = 4, e = 2) in 6 are longer than the dimension

// -----
te.kernel @k(%x: memref<4x1x2xi8, #te.scope<dram>>) {
  %b = te.alloc : memref<6x1x2xi8, #te.scope<inp>>
  te.copy %x to %b pads [1, 0]
  te.yield
}
// CHECK: pads are one number from 0 on for each dimension of source and target

// -----
te.kernel @k(%x: memref<6x1x2xi8, #te.scope<dram>>) {
  %b = te.alloc : memref<4x1x2xi32, #te.scope<acc>>
  te.copy %b to %x pads [1, 0, 0]
  te.yield
}
// CHECK: only a load of a tensor that is not packed has pads

// -----
te.kernel @k(%x: memref<4xi32>) {
  te.for "f" [%f : %f_n] in [0 : 4] {
    %a, %a_n, %b, %b_n = te.unfuse [%f : %f_n] into [0 : 4] step 0, [0 : 1] step 1
  }
  te.yield
}
// CHECK: two ranges that are not empty, each with a step of at least 1

// -----
te.intrinsic @store (b = 1, o = 2) writes dram[b, o] outside 0 : i8 with (acc[b, o] : i32) lowers store {
^bb0(%a: i32):
  %0 = arith.trunci %a : i32 to i8
  te.yield %0 : i8
}
// CHECK: what is outside of the destination is not written

// -----
func.func @f(%x: tensor<4x2xi8>) {
  %y = te.view %x : tensor<4x2xi8> to tensor<3x2xi8>
  func.return
}
// CHECK: a view keeps the number of elements

// -----
func.func @f(%x: tensor<4x2xi8>) {
  %y = te.view %x : tensor<4x2xi8> to tensor<4x2xi32>
  func.return
}
// CHECK: a view keeps the element type
