// RUN: not vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule 2>&1 | filecheck %s

// A sum is no product.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi32> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%p[h, b, k] : tensor<4x1x16xi8>, %w[o, k] : tensor<16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.addi %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  te.yield %x : tensor<4x1x16xi32>
}
te.schedule @k {
^bb0(%x: !te.stage):
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  te.tensorize %x at %h by [@gemm]
}
}
// CHECK: te.schedule @k, step 2 (te.tensorize): stage "x" is not gemm: the statement is add(destination, ext(operand 0), ext(operand 1)), but @gemm is add(destination, mul(ext(source 0), ext(source 1)))
