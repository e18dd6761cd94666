// RUN: vta-opt %s -p te-fill-lanes | filecheck %s

// One channel in elements of two lanes: two pixels share an element of %y. Its maker has half the
// outputs, and its reader finds pixel 2 * w + phase in lane "phase" of element w. %z is full.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 1, log_inp_buff_size = 10, log_wgt_buff_size = 10, log_acc_buff_size = 10>} {
  func.func private @f(%x: tensor<1x1x4x1x2xi8>) -> tensor<1x1x4x1x2xi8> attributes {codegen = "vta"} {
    %w = te.constant dense<[[[[[1, 2], [0, 0]]]]]> : tensor<1x1x1x2x2xi8>
    %v = te.constant dense<[[[[[3, 0], [4, 0]]]]]> : tensor<1x1x1x2x2xi8>
    %y = te.call @first(%x, %w) : (tensor<1x1x4x1x2xi8>, tensor<1x1x1x2x2xi8>) -> tensor<1x1x4x1x2xi8>
    %z = te.call @second(%y, %v) : (tensor<1x1x4x1x2xi8>, tensor<1x1x1x2x2xi8>) -> tensor<1x1x4x1x2xi8>
    func.return %z : tensor<1x1x4x1x2xi8>
  }
  te.kernel @first(%x: tensor<1x1x4x1x2xi8>, %w: tensor<1x1x1x2x2xi8>) -> tensor<1x1x4x1x2xi8> {
    %p = te.compute "p" (n = 1, c = 1, w = 4, b = 1, o = 2) reduce (ci = 1, kw = 1, k = 2)
        ins (%x[n, ci, w + kw, b, k] : tensor<1x1x4x1x2xi8>, %w[c, ci, kw, o, k] : tensor<1x1x1x2x2xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x1x4x1x2xi32>
    %y = te.compute "y" (n = 1, c = 1, w = 4, b = 1, o = 2)
        ins (%p[n, c, w, b, o] : tensor<1x1x4x1x2xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x1x4x1x2xi8>
    te.yield %y : tensor<1x1x4x1x2xi8>
  }
  te.kernel @second(%x: tensor<1x1x4x1x2xi8>, %w: tensor<1x1x1x2x2xi8>) -> tensor<1x1x4x1x2xi8> {
    %p = te.compute "p" (n = 1, c = 1, w = 4, b = 1, o = 2) reduce (ci = 1, kw = 1, k = 2)
        ins (%x[n, ci, w + kw, b, k] : tensor<1x1x4x1x2xi8>, %w[c, ci, kw, o, k] : tensor<1x1x1x2x2xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x1x4x1x2xi32>
    %y = te.compute "y" (n = 1, c = 1, w = 4, b = 1, o = 2)
        ins (%p[n, c, w, b, o] : tensor<1x1x4x1x2xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x1x4x1x2xi8>
    te.yield %y : tensor<1x1x4x1x2xi8>
  }
}
// CHECK:      te.constant dense<{{\[\[\[\[\[}}1, 2], [0, 0]], {{\[\[}}0, 0], [1, 2]]]]]> : tensor<1x1x2x2x2xi8>
// CHECK-NEXT: te.constant dense<{{\[\[\[\[\[\[}}3, 0], [4, 0]]], {{\[\[\[}}0, 3], [0, 4]]]]]]> : tensor<1x1x2x1x2x2xi8>
// CHECK-NEXT: %[[Y:.*]] = te.call @first(%x, {{.*}}) -> tensor<1x1x2x1x2xi8>
// CHECK-NEXT: %[[Z:.*]] = te.call @second(%[[Y]], {{.*}}) -> tensor<1x1x2x2x1x2xi8>
// CHECK-NEXT: te.view %[[Z]] : tensor<1x1x2x2x1x2xi8> to tensor<1x1x4x1x2xi8>
// CHECK:      te.kernel @first({{.*}}te.choices = ["p along w: 1 to 2 pixels in an element, 7 cycles (1 pixel 9)"]
// CHECK-NEXT:   te.compute "p" (n = 1, c = 1, w = 2, b = 1, o = 2) reduce (ci = 1, kw = 2, k = 2)
// CHECK-NEXT:     ins (%x[n, ci, 2 * w + kw, b, k] : tensor<1x1x4x1x2xi8>,
// CHECK:      te.kernel @second({{.*}}te.choices = ["p along w: 2 to 1 pixels in an element,
// CHECK-NEXT:   te.compute "p" (n = 1, c = 1, w = 2, w_phase = 2, b = 1, o = 2) reduce (ci = 1, kw = 1, k = 2)
// CHECK-NEXT:     ins (%x[n, ci, w + kw, b, k] : tensor<1x1x2x1x2xi8>,
// CHECK-NEXT:          %w[c, ci, w_phase, kw, o, k] : tensor<1x1x2x1x2x2xi8>)
