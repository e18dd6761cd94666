// RUN: not vta-opt %s -p te-to-loops,te-apply-schedule 2>&1 | filecheck %s

// "b" is read outside of the loop in which it is to be computed.
te.kernel @k(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %b = te.compute "b" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<4xi32>
  %c = te.compute "c" (h = 4) ins (%b[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<4xi32>
  %d = te.compute "d" (h = 4) ins (%b[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<4xi32>
  te.yield %c, %d : tensor<4xi32>, tensor<4xi32>
}
te.schedule @k {
^bb0(%b: !te.stage, %c: !te.stage, %d: !te.stage):
  %h = te.axes %d (h)
  te.compute_at %b, %h
}
// CHECK: te.schedule @k, step 2 (te.compute_at): "b" is also read by stage "c", outside of the loop "h"
// CHECK: compute it at a loop around all of its readers
