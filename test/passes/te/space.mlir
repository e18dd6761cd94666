// RUN: vta-opt %s -p te-declare-space | vta-opt | filecheck %s --check-prefix SPACE
// RUN: vta-opt %s -p te-declare-space,te-choose-point | vta-opt | filecheck %s --check-prefix POINT
// RUN: vta-opt %s -p 'te-declare-space,te-choose-point{method=random seed=1}' | filecheck %s --check-prefix RANDOM
// RUN: vta-opt %s -p 'te-declare-space,te-apply-point{point="tile.i=16 order=j,i slots.inp=3 piece=i/2"}' | filecheck %s --check-prefix APPLIED
// RUN: vta-opt %s -p te-declare-space,te-choose-point,te-apply-point -o %t.three
// RUN: vta-opt %s -p te-schedule -o %t.one
// RUN: diff %t.one %t.three
// RUN: vta-opt %s -p 'te-declare-space{kernel=y},te-choose-point{kernel=y},te-apply-point{kernel=y}' -o %t.named
// RUN: diff %t.one %t.named

// A product of matrices in lanes: its space, the point of the rule, and a point chosen by hand.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @y(%x: tensor<64x4x1x16xi8>, %w: tensor<4x4x16x16xi8>) -> tensor<64x4x1x16xi8> {
    %y_add = te.compute "y_add" (i = 64, j = 4, b = 1, o = 16) reduce (k = 4, k1 = 16)
        ins (%x[i, k, b, k1] : tensor<64x4x1x16xi8>,
             %w[j, k, o, k1] : tensor<4x4x16x16xi8>) identity 0 {
    ^bb0(%0: i32, %1: i8, %2: i8):
      %3 = arith.extsi %1 : i8 to i32
      %4 = arith.extsi %2 : i8 to i32
      %5 = arith.muli %3, %4 : i32
      %6 = arith.addi %0, %5 : i32
      te.yield %6 : i32
    } -> tensor<64x4x1x16xi32>
    %y_shrsi = te.compute "y_shrsi" (i = 64, j = 4, b = 1, o = 16)
        ins (%y_add[i, j, b, o] : tensor<64x4x1x16xi32>) {
    ^bb0(%7: i32):
      %8 = arith.constant 7 : i32
      %9 = arith.shrsi %7, %8 : i32
      te.yield %9 : i32
    } -> tensor<64x4x1x16xi32>
    %y = te.compute "y" (i = 64, j = 4, b = 1, o = 16)
        ins (%y_shrsi[i, j, b, o] : tensor<64x4x1x16xi32>) {
    ^bb0(%10: i32):
      %11 = arith.trunci %10 : i32 to i8
      te.yield %11 : i8
    } -> tensor<64x4x1x16xi8>
    te.yield %y : tensor<64x4x1x16xi8>
  }
}
// SPACE:      te.space @y template "tiles" version 1 {
// SPACE-NEXT:   te.knob "tile.i" ordered [64, 32, 22, 16, 13, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1]
// SPACE-NEXT:   te.knob "tile.j" ordered [4, 2, 1]
// SPACE-NEXT:   te.knob "order" permutation [i, j]
// SPACE-NEXT:   te.knob "cut.y_add.k" ordered [4, 2, 1]
// SPACE-NEXT:   te.knob "start.y_add.k" choice [none, [1], [2], [1, 1], [1, 2], [1, 1, 2]]
// SPACE-NEXT:   te.knob "whole.y_add.activations" choice [false, true]
// SPACE-NEXT:   te.knob "whole.y_add.weights" choice [false, true]
// SPACE-NEXT:   te.knob "windows.y_add" choice [false, true]
// SPACE-NEXT:   te.knob "slots.inp" ordered [1, 2, 3, 4] default 2
// SPACE-NEXT:   te.knob "slots.wgt" ordered [1, 2, 3, 4] default 2
// SPACE-NEXT:   te.knob "slots.acc" ordered [1, 2, 3] default 2
// SPACE-NEXT:   te.knob "piece" choice [none, "i/2", "i/4", "i/6", "i/8", "i/16", "j/2", "j/4", "j/6", "j/8", "j/16"]
// SPACE-NEXT:   te.knob "end.i" choice [none, "last/2", "first/2", "last/4", "first/4"]
// SPACE-NEXT:   te.knob "end.j" choice [none, "last/2", "first/2", "last/4", "first/4"]
// SPACE-NEXT: }
// SPACE-NOT:  te.schedule

// POINT:      te.space @y
// POINT:      te.point @y {{[{].+[}]}} cost {{[0-9]+}}
// POINT-NOT:  te.schedule

// RANDOM:     te.point @y {{[{].+[}]}} cost {{[0-9]+}}

// APPLIED-NOT:   te.space
// APPLIED-NOT:   te.point
// APPLIED:       te.schedule @y attributes {estimate = {{[0-9]+}} : i64, choice = ["tiles i 4 x 16", "y_add: not cut; activations a tile at once, weights a tile at once", "slots 3 activations, 2 weights, 2 accumulators", "end of a tile in pieces of 8 i"]}
// APPLIED:       te.split %i factor 16
// APPLIED:       te.cache_read %y_add operand 0 scope <inp> slots 3
