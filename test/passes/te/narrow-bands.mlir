// RUN: vta-opt %s -p te-narrow-bands | filecheck %s

// Weights of two blocks of outputs and two blocks of inputs. What the calls pass has different
// bands, so each gets a kernel of its own: a selection of the second block of inputs (the second
// block of outputs would read beyond the tensor, where its weights are 0), diagonal blocks, and
// weights that use all blocks.
func.func private @f(%x: tensor<1x2x1x2xi8>) -> (tensor<1x2x1x2xi32>, tensor<1x2x1x2xi32>, tensor<1x2x1x2xi32>) attributes {codegen = "vta"} {
  %second = te.constant dense<[[[[0, 0], [0, 0]], [[1, 2], [3, 4]]], [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]]> : tensor<2x2x2x2xi8>
  %diagonal = te.constant dense<[[[[1, 2], [3, 4]], [[0, 0], [0, 0]]], [[[0, 0], [0, 0]], [[5, 6], [7, 8]]]]> : tensor<2x2x2x2xi8>
  %dense = te.constant dense<1> : tensor<2x2x2x2xi8>
  %y0 = te.call @product(%x, %second) : (tensor<1x2x1x2xi8>, tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32>
  %y1 = te.call @product(%x, %diagonal) : (tensor<1x2x1x2xi8>, tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32>
  %y2 = te.call @product(%x, %dense) : (tensor<1x2x1x2xi8>, tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32>
  func.return %y0, %y1, %y2 : tensor<1x2x1x2xi32>, tensor<1x2x1x2xi32>, tensor<1x2x1x2xi32>
}
te.kernel @product(%x: tensor<1x2x1x2xi8>, %w: tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32> {
  %y = te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (ci = 2, k = 2)
      ins (%x[n, ci, b, k] : tensor<1x2x1x2xi8>, %w[c, ci, o, k] : tensor<2x2x2x2xi8>) identity 0 {
  ^bb0(%a: i32, %p: i8, %q: i8):
    %p32 = arith.extsi %p : i8 to i32
    %q32 = arith.extsi %q : i8 to i32
    %m = arith.muli %p32, %q32 : i32
    %s = arith.addi %a, %m : i32
    te.yield %s : i32
  } -> tensor<1x2x1x2xi32>
  te.yield %y : tensor<1x2x1x2xi32>
}
// CHECK:      %[[SECOND:.*]] = te.constant dense<{{\[\[\[}}1, 2], [3, 4]], {{\[\[}}0, 0], [0, 0]]]> : tensor<2x2x2xi8>
// CHECK-NEXT: %[[DIAGONAL:.*]] = te.constant dense<{{\[\[\[}}1, 2], [3, 4]], {{\[\[}}5, 6], [7, 8]]]> : tensor<2x2x2xi8>
// CHECK-NEXT: %[[DENSE:.*]] = te.constant dense<1> : tensor<2x2x2x2xi8>
// CHECK-NEXT: te.call @product(%x, %[[SECOND]])
// CHECK-NEXT: te.call @[[ONE:.*]](%x, %[[DIAGONAL]])
// CHECK-NEXT: te.call @[[ALL:.*]](%x, %[[DENSE]])
// CHECK:      te.kernel @product
// CHECK-NEXT:   te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (k = 2)
// CHECK-NEXT:     ins (%x[n, c + 1, b, k] outside 0 : tensor<1x2x1x2xi8>,
// CHECK-NEXT:          %w[c, o, k] : tensor<2x2x2xi8>)
// CHECK:      te.kernel @[[ALL]]
// CHECK-NEXT:   te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (ci = 2, k = 2)
// CHECK-NEXT:     ins (%x[n, ci, b, k] :
// CHECK:      te.kernel @[[ONE]]
// CHECK-NEXT:   te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (k = 2)
// CHECK-NEXT:     ins (%x[n, c, b, k] :
// CHECK:      te.kernel @border

// What lies beyond the ends of the tensor is not 0: the selection stays as it is.
func.func private @g(%x: tensor<1x2x1x2xi8>) -> tensor<1x2x1x2xi32> attributes {codegen = "vta"} {
  %second = te.constant dense<[[[[0, 0], [0, 0]], [[1, 2], [3, 4]]], [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]]> : tensor<2x2x2x2xi8>
  %y = te.call @border(%x, %second) : (tensor<1x2x1x2xi8>, tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32>
  func.return %y : tensor<1x2x1x2xi32>
}
te.kernel @border(%x: tensor<1x2x1x2xi8>, %w: tensor<2x2x2x2xi8>) -> tensor<1x2x1x2xi32> {
  %y = te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (ci = 2, k = 2)
      ins (%x[n, ci, b, k] outside 3 : tensor<1x2x1x2xi8>, %w[c, ci, o, k] : tensor<2x2x2x2xi8>) identity 0 {
  ^bb0(%a: i32, %p: i8, %q: i8):
    %p32 = arith.extsi %p : i8 to i32
    %q32 = arith.extsi %q : i8 to i32
    %m = arith.muli %p32, %q32 : i32
    %s = arith.addi %a, %m : i32
    te.yield %s : i32
  } -> tensor<1x2x1x2xi32>
  te.yield %y : tensor<1x2x1x2xi32>
}
// CHECK-NEXT:   te.compute "y" (n = 1, c = 2, b = 1, o = 2) reduce (ci = 2, k = 2)
// CHECK-NEXT:     ins (%x[n, ci, b, k] outside 3
