// RUN: vta-opt %s -p te-pack-constants --split-input-file | filecheck %s

// Loads visit tiles of 2 by 1 elements, again for each "h": the constants of both calls are stored
// tile by tile. The loops and the copy do not change.
// CHECK-LABEL: func.func private @f
// CHECK-DAG:     %w = te.constant dense<[0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]> : tensor<16xi8>
// CHECK-DAG:     %z = te.constant dense<3> : tensor<16xi8>
// CHECK:         te.call @k(%w) : (tensor<16xi8>) -> tensor<1xi8>
// CHECK-NEXT:    te.call @k(%z) : (tensor<16xi8>) -> tensor<1xi8>
// CHECK-NEXT:    te.call @k(%w) : (tensor<16xi8>) -> tensor<1xi8>
// CHECK-NEXT:    func.return
func.func private @f() {
  %w = te.constant dense<[[[[0, 1]], [[2, 3]]], [[[4, 5]], [[6, 7]]], [[[8, 9]], [[10, 11]]], [[[12, 13]], [[14, 15]]]]> : tensor<4x2x1x2xi8>
  %z = te.constant dense<3> : tensor<4x2x1x2xi8>
  %0 = te.call @k(%w) : (tensor<4x2x1x2xi8>) -> tensor<1xi8>
  %1 = te.call @k(%z) : (tensor<4x2x1x2xi8>) -> tensor<1xi8>
  %2 = te.call @k(%w) : (tensor<4x2x1x2xi8>) -> tensor<1xi8>
  func.return
}
// CHECK:       te.kernel @k(%w: memref<4x2x1x2xi8, #te.packed<cut (0 by 2, 1 by 1)>, #te.scope<dram>>,
// CHECK:         te.for "ci" [%ci : %ci_n] in [0 : 2] {
// CHECK-NEXT:      %b = te.alloc [%c : %c_n, %ci : %ci_n, 0 : 1, 0 : 2] : memref<4x2x1x2xi8, #te.scope<wgt>>
// CHECK-NEXT:      te.copy %w to %b
te.kernel @k(%w: memref<4x2x1x2xi8, #te.scope<dram>>, %y: memref<1xi8, #te.scope<dram>>) {
  te.for "c" [%c : %c_n] in [0 : 4] step 2 {
    te.for "h" [%h : %h_n] in [0 : 2] {
      te.for "ci" [%ci : %ci_n] in [0 : 2] {
        %b = te.alloc [%c : %c_n, %ci : %ci_n, 0 : 1, 0 : 2] : memref<4x2x1x2xi8, #te.scope<wgt>>
        te.copy %w to %b
      }
    }
  }
  te.yield
}

// -----

// Several loads, and an order that no loops have: the boxes one by one. What is never loaded (the
// second element of the last row) is not stored.
// CHECK-LABEL: func.func private @f
// CHECK:         te.constant dense<[4, 2, 3, 0, 1]> : tensor<5xi8>
func.func private @f() {
  %w = te.constant dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi8>
  %0 = te.call @k(%w) : (tensor<3x2xi8>) -> tensor<1xi8>
  func.return
}
// CHECK:       te.kernel @k(%w: memref<3x2xi8, #te.packed<[2 : 1, 0 : 1], [1 : 1, 0 : 2], [0 : 1, 0 : 2]>, #te.scope<dram>>,
te.kernel @k(%w: memref<3x2xi8, #te.scope<dram>>, %y: memref<1xi8, #te.scope<dram>>) {
  %a = te.alloc [2 : 1, 0 : 1] : memref<3x2xi8, #te.scope<wgt>>
  te.copy %w to %a
  te.for "h" [%h : %h_n] in [0 : 2] {
    %s, %n = te.span -1 * [%h : %h_n] + [1 : 1]
    %b = te.alloc [%s : %n, 0 : 2] : memref<3x2xi8, #te.scope<wgt>>
    te.copy %w to %b
  }
  te.yield
}

// -----

// What stays: %a is loaded in runs in order, %b by loads that overlap, %c is no constant in one of
// the calls, %d is copied within DRAM too.
// CHECK-LABEL: func.func private @f
// CHECK:         te.call @k(%w, %w, %w, %w) : (tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>)
func.func private @f(%x: tensor<2x2xi8>) {
  %w = te.constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi8>
  %0 = te.call @k(%w, %w, %w, %w) : (tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<1xi8>
  %1 = te.call @k(%w, %w, %x, %w) : (tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<1xi8>
  func.return
}
// CHECK:       te.kernel @k(%a: memref<2x2xi8, #te.scope<dram>>, %b: memref<2x2xi8, #te.scope<dram>>,
// CHECK-SAME:    %c: memref<2x2xi8, #te.scope<dram>>, %d: memref<2x2xi8, #te.scope<dram>>,
te.kernel @k(%a: memref<2x2xi8, #te.scope<dram>>, %b: memref<2x2xi8, #te.scope<dram>>, %c: memref<2x2xi8, #te.scope<dram>>, %d: memref<2x2xi8, #te.scope<dram>>, %y: memref<1xi8, #te.scope<dram>>) {
  %b0 = te.alloc : memref<2x2xi8, #te.scope<wgt>>
  te.copy %b to %b0
  %d0 = te.alloc : memref<2x2xi8, #te.scope<dram>>
  te.copy %d to %d0
  te.for "h" [%h : %h_n] in [0 : 2] {
    %a0 = te.alloc [%h : %h_n, 0 : 2] : memref<2x2xi8, #te.scope<wgt>>
    te.copy %a to %a0
    %b1 = te.alloc [0 : 2, %h : %h_n] : memref<2x2xi8, #te.scope<wgt>>
    te.copy %b to %b1
    %c0 = te.alloc [0 : 2, %h : %h_n] : memref<2x2xi8, #te.scope<wgt>>
    te.copy %c to %c0
    %d1 = te.alloc [0 : 2, %h : %h_n] : memref<2x2xi8, #te.scope<wgt>>
    te.copy %d to %d1
  }
  te.yield
}
