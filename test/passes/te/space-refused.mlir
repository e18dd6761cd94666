// RUN: not vta-opt %s -p 'te-declare-space{template=oval}' 2>&1 | filecheck %s --check-prefix TEMPLATE
// RUN: not vta-opt %s -p 'te-declare-space{template=conv2d-threads}' 2>&1 | filecheck %s --check-prefix MISFIT
// RUN: not vta-opt %s -p 'te-declare-space{kernel=z}' 2>&1 | filecheck %s --check-prefix NOKERNEL
// RUN: not vta-opt %s -p 'te-choose-point{kernel=y}' 2>&1 | filecheck %s --check-prefix NOSPACE
// RUN: not vta-opt %s -p 'te-declare-space,te-choose-point{method=luck}' 2>&1 | filecheck %s --check-prefix METHOD
// RUN: not vta-opt %s -p te-declare-space,te-apply-point 2>&1 | filecheck %s --check-prefix NOPOINT
// RUN: not vta-opt %s -p 'te-declare-space,te-apply-point{point="tile.j=3"}' 2>&1 | filecheck %s --check-prefix VALUE
// RUN: not vta-opt %s -p 'te-declare-space,te-apply-point{point="tile.z=3"}' 2>&1 | filecheck %s --check-prefix KNOB
// RUN: not vta-opt %s -p 'te-declare-space,te-apply-point{point="tile.j"}' 2>&1 | filecheck %s --check-prefix TEXT
// RUN: not vta-opt %s --target sim -p 'te-declare-space,te-apply-point{point="slots.acc=3"}' 2>&1 | filecheck %s --check-prefix FITS

builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @y(%x: tensor<3000x4x1x16xi8>, %w: tensor<4x4x16x16xi8>) -> tensor<3000x4x1x16xi8> {
    %y_add = te.compute "y_add" (i = 3000, j = 4, b = 1, o = 16) reduce (k = 4, k1 = 16)
        ins (%x[i, k, b, k1] : tensor<3000x4x1x16xi8>,
             %w[j, k, o, k1] : tensor<4x4x16x16xi8>) identity 0 {
    ^bb0(%0: i32, %1: i8, %2: i8):
      %3 = arith.extsi %1 : i8 to i32
      %4 = arith.extsi %2 : i8 to i32
      %5 = arith.muli %3, %4 : i32
      %6 = arith.addi %0, %5 : i32
      te.yield %6 : i32
    } -> tensor<3000x4x1x16xi32>
    %y_shrsi = te.compute "y_shrsi" (i = 3000, j = 4, b = 1, o = 16)
        ins (%y_add[i, j, b, o] : tensor<3000x4x1x16xi32>) {
    ^bb0(%7: i32):
      %8 = arith.constant 7 : i32
      %9 = arith.shrsi %7, %8 : i32
      te.yield %9 : i32
    } -> tensor<3000x4x1x16xi32>
    %y = te.compute "y" (i = 3000, j = 4, b = 1, o = 16)
        ins (%y_shrsi[i, j, b, o] : tensor<3000x4x1x16xi32>) {
    ^bb0(%10: i32):
      %11 = arith.trunci %10 : i32 to i8
      te.yield %11 : i8
    } -> tensor<3000x4x1x16xi8>
    te.yield %y : tensor<3000x4x1x16xi8>
  }
}
// TEMPLATE: there is no template 'oval'
// TEMPLATE-NEXT: There are conv2d-threads, tiles.
// MISFIT: te.kernel @y: template 'conv2d-threads' does not apply: its product is no convolution
// NOKERNEL: te.kernel @z: there is no kernel of tensors of this name that has no schedule
// NOSPACE: te.kernel @y: it has no te.space
// NOSPACE-NEXT: te-declare-space writes one.
// METHOD: there is no method 'luck'
// METHOD-NEXT: There are default, random.
// NOPOINT: te.kernel @y: its te.space has no te.point
// VALUE: te.kernel @y: knob 'tile.j' has no value 3
// KNOB: te.kernel @y: there is no knob 'tile.z'
// TEXT: te.kernel @y: the point cannot be read: 'tile.j' is not of the form KNOB=VALUE
// FITS: te.kernel @y: the point does not fit: it needs 12000 elements of INP (INP has 2048), 12000 elements of ACC (ACC has 2048)
