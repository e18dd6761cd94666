// RUN: vta-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: range 7 : 2 leaves the dimension of 8
%x = "test.op"() : () -> tensor<2x8xi8>
%0 = te.window %x [0 : 2, 7 : 2] : tensor<2x8xi8> to tensor<2x2xi8>

// -----

// CHECK: a window of [2, 3] is no tensor<2x2xi8>
%x = "test.op"() : () -> tensor<2x8xi8>
%0 = te.window %x [0 : 2, 0 : 3] : tensor<2x8xi8> to tensor<2x2xi8>

// -----

// CHECK: a window keeps the element type
%x = "test.op"() : () -> tensor<2x8xi8>
%0 = te.window %x [0 : 2, 0 : 2] : tensor<2x8xi8> to tensor<2x2xi32>

// -----

// CHECK: a rectangle of rank 1 in a tensor of 2
%x = "test.op"() : () -> tensor<2x8xi8>
%0 = te.window %x [0 : 2] : tensor<2x8xi8> to tensor<2xi8>

// -----

// CHECK: parts at [0, 0] and [0, 3] overlap
%x = "test.op"() : () -> tensor<2x4xi8>
%0 = te.assemble (%x at [0, 0], %x at [0, 3]) : tensor<2x8xi8>

// -----

// CHECK: 4 elements of the tensor are in no part
%x = "test.op"() : () -> tensor<2x4xi8>
%y = "test.op"() : () -> tensor<2x2xi8>
%0 = te.assemble (%x at [0, 0], %y at [0, 6]) : tensor<2x8xi8>

// -----

// CHECK: every part has 2 dimensions and as many starts
%x = "test.op"() : () -> tensor<2x4xi8>
%0 = te.assemble (%x at [0]) : tensor<2x4xi8>

// -----

// CHECK: an assembled tensor keeps the element type
%x = "test.op"() : () -> tensor<2x4xi8>
%0 = te.assemble (%x at [0, 0]) : tensor<2x4xi32>
