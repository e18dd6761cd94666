// RUN: vta-opt %s --verify-roundtrip | filecheck %s

func.func @layer(%x: tensor<1x4x1x2xi8>) -> tensor<1x4x1x2xi8> {
  %w = te.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %y = te.call @k(%x, %w) : (tensor<1x4x1x2xi8>, tensor<2x2xi8>) -> tensor<1x4x1x2xi8>
  %z = te.view %y : tensor<1x4x1x2xi8> to tensor<2x2x1x2xi8>
  func.return %y : tensor<1x4x1x2xi8>
}
// CHECK:      %w = te.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK-NEXT: te.call @k(%x, %w) : (tensor<1x4x1x2xi8>, tensor<2x2xi8>) -> tensor<1x4x1x2xi8>
// CHECK-NEXT: te.view %y : tensor<1x4x1x2xi8> to tensor<2x2x1x2xi8>

te.kernel @k(%x: tensor<1x4x1x2xi8>, %w: tensor<2x2xi8>) -> tensor<1x4x1x2xi8> {
  %sum = te.compute "sum" (n = 1, h = 4, b = 1, o = 2) reduce (t = 3, k = 2)
      ins (%x[n, h + t - 1, b, k] outside 0 : tensor<1x4x1x2xi8>,
           %w[o, k] : tensor<2x2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<1x4x1x2xi32>
  %more = te.compute "more" (n = 1, h = 4, b = 1, o = 2) reduce (k = 2)
      ins (%x[n, 3 - h, b, k] : tensor<1x4x1x2xi8>) init %sum : tensor<1x4x1x2xi32> {
  ^bb0(%acc: i32, %a: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<1x4x1x2xi32>
  %q = te.compute "narrow" (n = 1, h = 4, b = 1, o = 2)
      ins (%more[n, h, b, o] : tensor<1x4x1x2xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<1x4x1x2xi8>
  te.yield %q : tensor<1x4x1x2xi8>
}
// CHECK:      te.kernel @k(%x: tensor<1x4x1x2xi8>, %w: tensor<2x2xi8>) -> tensor<1x4x1x2xi8> {
// CHECK-NEXT:   %sum = te.compute "sum" (n = 1, h = 4, b = 1, o = 2) reduce (t = 3, k = 2)
// CHECK-NEXT:       ins (%x[n, h + t - 1, b, k] outside 0 : tensor<1x4x1x2xi8>,
// CHECK-NEXT:            %w[o, k] : tensor<2x2xi8>) identity 0 {
// CHECK-NEXT:   ^bb0(%acc: i32, %a: i8, %b: i8):
// CHECK:        } -> tensor<1x4x1x2xi32>
// CHECK:          ins (%x[n, -h + 3, b, k] : tensor<1x4x1x2xi8>) init %sum : tensor<1x4x1x2xi32> {
// CHECK:        te.yield %q : tensor<1x4x1x2xi8>

te.schedule @k {
^bb0(%sum: !te.stage, %more: !te.stage, %q: !te.stage):
  %n, %h, %b, %o = te.axes %q (n, h, b, o)
  %no, %ho, %ni, %hi = te.tile %n, %h factors [1, 2]
  %f = te.fuse %no, %ho
  te.set_scope %more scope <acc> slots 2
  te.compute_at %more, %f
  te.dma %q at %ni
  %mn, %mh, %mb, %mo, %mk = te.axes %more (n, h, b, o, k)
  %x = te.cache_read %more operand 0 scope <inp> slots 2
  te.pad %x
  te.compute_at %x, %mn
  %i = te.init %more
  te.in_place %i operand 0
  %so, %si = te.split %mh sizes [1, 1]
  te.reorder %si, %mb
  te.tensorize %more at %si by [@gemm]
  te.unroll %so
  te.join %mo, %o
  te.vthread %mn
  %c = te.cache_write %q scope <acc> slots 1
  te.compute_with %q, %f
  te.inline %c
}
// CHECK:      te.schedule @k {
// CHECK-NEXT: ^bb0(%sum: !te.stage, %more: !te.stage, %q: !te.stage):
// CHECK-NEXT:   %n, %h, %b, %o = te.axes %q (n, h, b, o)
// CHECK-NEXT:   %no, %ho, %ni, %hi = te.tile %n, %h factors [1, 2]
// CHECK-NEXT:   %f = te.fuse %no, %ho
// CHECK-NEXT:   te.set_scope %more scope <acc> slots 2
// CHECK-NEXT:   te.compute_at %more, %f
// CHECK-NEXT:   te.dma %q at %ni
// CHECK-NEXT:   %mn, %mh, %mb, %mo, %mk = te.axes %more (n, h, b, o, k)
// CHECK-NEXT:   %x = te.cache_read %more operand 0 scope <inp> slots 2
// CHECK-NEXT:   te.pad %x
// CHECK-NEXT:   te.compute_at %x, %mn
// CHECK-NEXT:   %i = te.init %more
// CHECK-NEXT:   te.in_place %i operand 0
// CHECK-NEXT:   %so, %si = te.split %mh sizes [1, 1]
// CHECK-NEXT:   te.reorder %si, %mb
// CHECK-NEXT:   te.tensorize %more at %si by [@gemm]
// CHECK-NEXT:   te.unroll %so
// CHECK-NEXT:   te.join %mo, %o
// CHECK-NEXT:   te.vthread %mn
// CHECK-NEXT:   %c = te.cache_write %q scope <acc> slots 1
// CHECK-NEXT:   te.compute_with %q, %f
// CHECK-NEXT:   te.inline %c

// A divided subscript, and layouts at the border of a function.
func.func @border(%w: tensor<1x16x16xi8> {te.layout = #te.layout<"w"[9, 9] at [8 * c + o, 8 * c + k] over (c = 1), (o = 8) in 16, (k = 4, p = 2) in 16 where [o - 2 * k - p]>}) -> (tensor<4xi8> {te.layout = #te.layout<byte 1 of "y"[4]>}) {
  %y = te.call @up(%w) : (tensor<1x16x16xi8>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}
te.kernel @up(%w: tensor<1x16x16xi8>) -> tensor<4xi8> {
  %q = te.compute "up" (h = 4) ins (%w[0, (h - 1) / 2, (4 * h + 2) / 6] outside 0 : tensor<1x16x16xi8>) {
  ^bb0(%a: i8):
    te.yield %a : i8
  } -> tensor<4xi8>
  te.yield %q : tensor<4xi8>
}
// CHECK:      func.func @border(%w: tensor<1x16x16xi8> {te.layout = #te.layout<"w"[9, 9] at [8 * c + o, 8 * c + k] over (c = 1), (o = 8) in 16, (k = 4, p = 2) in 16 where [o - 2 * k - p]>}) -> (tensor<4xi8> {te.layout = #te.layout<byte 1 of "y"[4]>}) {
// CHECK:      ins (%w[0, (h - 1) / 2, (2 * h + 1) / 3] outside 0 : tensor<1x16x16xi8>)
