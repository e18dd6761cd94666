// RUN: not vta-opt %s -p te-to-loops,te-apply-schedule 2>&1 | filecheck %s

// What is read from the neighbouring iteration is not there yet.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @neighbours(%x: tensor<6x1x16xi32>) -> tensor<6x1x16xi32> {
  %s = te.compute "s" (h = 6, i = 1, o = 16) ins (%x[h, i, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<6x1x16xi32>
  %m = te.compute "m" (h = 6, i = 1, o = 16) ins (%s[h + 1, i, o] outside 0 : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<6x1x16xi32>
  te.yield %m : tensor<6x1x16xi32>
}
te.schedule @neighbours {
^bb0(%s: !te.stage, %m: !te.stage):
  %h, %i, %o = te.axes %s (h, i, o)
  %h1, %i1, %o1 = te.axes %m (h, i, o)
  te.join %h, %h1
}
}
// CHECK: te.schedule @neighbours, step 3 (te.join): a buffer that "s", "m" share is not cut by the loop "h"
