// RUN: vta-opt %s --verify-roundtrip | filecheck %s

func.func private @f() -> tensor<4xi8> {
  %w = te.constant dense<1> : tensor<24xi8>
  %v = te.constant dense<2> : tensor<16xi8>
  %y = te.call @k(%w, %v) : (tensor<24xi8>, tensor<16xi8>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// The whole tensor, in slices of 2 and 1 along dimension 0, each in slices of 1, 1 and 2 along
// dimension 1; and two boxes, of which the second is in slices and the first is stored last. What
// is passed for them is one-dimensional.
te.kernel @k(%w: memref<3x4x2xi8, #te.packed<cut (0 by 2, 1 by [1, 1, 2])>, #te.scope<dram>>,
    %v: memref<3x4x2xi8, #te.packed<[1 : 2, 1 : 3, 0 : 2] cut (0 by 1), [0 : 1, 0 : 2, 0 : 2]>, #te.scope<dram>>,
    %y: memref<4xi8, #te.scope<dram>>) {
  te.for "h" [%h : %h_n] in [0 : 3] step 2 {
    %b = te.alloc [%h : %h_n, 2 : 2, 0 : 2] : memref<3x4x2xi8, #te.scope<wgt>>
    te.copy %w to %b
  }
  te.yield
}
// CHECK:      te.kernel @k(%w: memref<3x4x2xi8, #te.packed<cut (0 by 2, 1 by [1, 1, 2])>, #te.scope<dram>>,
// CHECK-SAME:   %v: memref<3x4x2xi8, #te.packed<[1 : 2, 1 : 3, 0 : 2] cut (0 by 1), [0 : 1, 0 : 2, 0 : 2]>, #te.scope<dram>>,
// CHECK:        te.copy %w to %b

te.kernel @whole(%w: memref<3x4x2xi8, #te.packed<[]>, #te.scope<dram>>) {
  te.yield
}
// CHECK:      te.kernel @whole(%w: memref<3x4x2xi8, #te.packed<[]>, #te.scope<dram>>) {
