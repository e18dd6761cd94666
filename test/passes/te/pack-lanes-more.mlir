// RUN: vta-opt %s --target pynq -p te-pack-lanes --split-input-file --verify-diagnostics | filecheck %s

// A sum over all of a vector: a product with ones, 16 of which fit an element. The constant factor
// and known tensors are packed here. There is one block, so the axis j goes.
func.func @main(%x: tensor<10xi8>) -> tensor<1xi32> attributes {codegen = "vta"} {
  %y = te.call @total(%x) : (tensor<10xi8>) -> tensor<1xi32>
  func.return %y : tensor<1xi32>
}
te.kernel @total(%x: tensor<10xi8>) -> tensor<1xi32> {
  %y = te.compute "y" (unit = 1) reduce (j = 10) ins (%x[j] : tensor<10xi8>) identity 0 {
  ^bb0(%acc: i32, %p: i8):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<1xi32>
  te.yield %y : tensor<1xi32>
}
// CHECK:      %x: tensor<1x1x16xi8> {te.layout = #te.layout<"x"[10] at [16 * d0 + c0] over (d0 = 1), (r0 = 1), (c0 = 16)>}
// CHECK:      %factor = te.constant #vtac.resource<"factor", "{{.*}}"> : tensor<16x16xi8>
// CHECK:      %y = te.compute "y" (unit = 1, b = 1, o = 16) reduce (k = 16)
// CHECK-NEXT:     ins (%x[0, b, k] : tensor<1x1x16xi8>,
// CHECK-NEXT:          %factor[o, k] : tensor<16x16xi8>) identity 0 {

// -----
// Two readers that need different lanes: a parameter of the function for each.
func.func @main(%x: tensor<20x30xi8>) -> tensor<20x20xi32> attributes {codegen = "vta"} {
  %y = te.call @gram(%x) : (tensor<20x30xi8>) -> tensor<20x20xi32>
  func.return %y : tensor<20x20xi32>
}
te.kernel @gram(%x: tensor<20x30xi8>) -> tensor<20x20xi32> {
  %y = te.compute "y" (i = 20, j = 20) reduce (m = 30)
      ins (%x[i, m] : tensor<20x30xi8>, %x[j, m] : tensor<20x30xi8>) identity 0 {
  ^bb0(%acc: i32, %p: i8, %q: i8):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<20x20xi32>
  te.yield %y : tensor<20x20xi32>
}
// CHECK:      func.func @main(%x: tensor<{{.*}}> {te.layout = #te.layout<"x"[20, 30]{{.*}}%x_1: tensor<{{.*}}> {te.layout = #te.layout<"x"[20, 30]
// CHECK:      te.compute "y" (i = 20, j = 2, b = 1, o = 16) reduce (m = 2, k = 16)

// -----
func.func @main(%x: tensor<4xi8>) -> (tensor<4xi32>, tensor<4xi32>) attributes {codegen = "vta"} {
  %y = te.call @twice(%x) : (tensor<4xi8>) -> tensor<4xi32>
  %z = te.call @twice(%x) : (tensor<4xi8>) -> tensor<4xi32>
  func.return %y, %z : tensor<4xi32>, tensor<4xi32>
}
te.kernel @twice(%x: tensor<4xi8>) -> tensor<4xi32> {
  %y = te.compute "y" (i = 4) ins (%x[i] : tensor<4xi8>) {
  ^bb0(%p: i8):
    %0 = arith.extsi %p : i8 to i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK: te.kernel @twice: lanes are chosen for a kernel called once
