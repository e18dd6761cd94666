// RUN: vta-opt %s -p te-extremes-first --target chisel-pynq | filecheck %s

// A shift and a clip wait for the largest of each window; what starts the maximum is void then.
// CHECK:      te.kernel @pool
// CHECK:        te.compute "m" (h = 4, b = 1, o = 16) reduce (k = 2)
// CHECK-NEXT:     ins (%s[2 * h + k, b, o] : tensor<8x1x16xi32>) identity -2147483648
// CHECK:        te.compute "shift" (h = 4, b = 1, o = 16)
// CHECK-NEXT:     ins (%m[h, b, o] :
// CHECK:        te.compute "clip" (h = 4, b = 1, o = 16)
// CHECK-NEXT:     ins (%shift[h, b, o] :
// CHECK:        te.yield %clip
te.kernel @pool(%x: tensor<8x1x16xi32>, %v: tensor<1x16xi32>) -> tensor<4x1x16xi32> {
  %s = te.compute "s" (h = 8, b = 1, o = 16)
      ins (%x[h, b, o] : tensor<8x1x16xi32>, %v[b, o] : tensor<1x16xi32>) {
  ^bb0(%p: i32, %q: i32):
    %r = arith.addi %p, %q : i32
    te.yield %r : i32
  } -> tensor<8x1x16xi32>
  %shift = te.compute "shift" (h = 8, b = 1, o = 16) ins (%s[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%p: i32):
    %c = arith.constant 3 : i32
    %r = arith.shrsi %p, %c : i32
    te.yield %r : i32
  } -> tensor<8x1x16xi32>
  %clip = te.compute "clip" (h = 8, b = 1, o = 16) ins (%shift[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%p: i32):
    %c = arith.constant -128 : i32
    %r = arith.maxsi %p, %c : i32
    te.yield %r : i32
  } -> tensor<8x1x16xi32>
  %m = te.compute "m" (h = 4, b = 1, o = 16) reduce (k = 2)
      ins (%clip[2 * h + k, b, o] : tensor<8x1x16xi32>) identity -128 {
  ^bb0(%a: i32, %p: i32):
    %r = arith.maxsi %a, %p : i32
    te.yield %r : i32
  } -> tensor<4x1x16xi32>
  te.yield %m : tensor<4x1x16xi32>
}

// Values may be less than what the maximum starts from: it counts, so the shift stays.
// CHECK:      te.kernel @stays
// CHECK:        te.compute "shift" (h = 8,
// CHECK:        te.compute "m" (h = 4, b = 1, o = 16) reduce (k = 2)
// CHECK-NEXT:     ins (%shift[2 * h + k, b, o] : tensor<8x1x16xi32>) identity -128
te.kernel @stays(%x: tensor<8x1x16xi32>) -> tensor<4x1x16xi32> {
  %s = te.compute "s" (h = 8, b = 1, o = 16) ins (%x[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%p: i32):
    %c = arith.constant 3 : i32
    %r = arith.addi %p, %c : i32
    te.yield %r : i32
  } -> tensor<8x1x16xi32>
  %shift = te.compute "shift" (h = 8, b = 1, o = 16) ins (%s[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%p: i32):
    %c = arith.constant 3 : i32
    %r = arith.shrsi %p, %c : i32
    te.yield %r : i32
  } -> tensor<8x1x16xi32>
  %m = te.compute "m" (h = 4, b = 1, o = 16) reduce (k = 2)
      ins (%shift[2 * h + k, b, o] : tensor<8x1x16xi32>) identity -128 {
  ^bb0(%a: i32, %p: i32):
    %r = arith.maxsi %a, %p : i32
    te.yield %r : i32
  } -> tensor<4x1x16xi32>
  te.yield %m : tensor<4x1x16xi32>
}
