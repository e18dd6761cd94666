// RUN: vta-opt %s -p te-schedule | filecheck %s

// Weights are loaded a tap at a time, so that the first product starts early; activations for all
// taps of a few blocks of input channels. At the end of each tile the ALU works on a piece while the
// piece before it is stored. What was chosen stands on the schedule.
// CHECK:      te.schedule @conv attributes {estimate = {{3[78][0-9]+}} : i64, choice = [
// CHECK-SAME:   "tiles {{[^"]*}}",
// CHECK-SAME:   "conv: ci {{[^"]*}}, in them kh 3 x 1, in them kw 3 x 1; activations loaded in ci, weights loaded in kw",
// CHECK-SAME:   "end of a tile in pieces of {{[^"]*}}"]} {
// CHECK:         %[[CIO:.*]], %[[CII:.*]] = te.split %ci{{.*}} factor
// CHECK-NEXT:    %[[KHO:.*]], %[[KHI:.*]] = te.split %kh factor 1
// CHECK-NEXT:    %[[KWO:.*]], %[[KWI:.*]] = te.split %kw factor 1
// CHECK-NEXT:    te.reorder %[[CIO]], %[[KHO]], %[[KWO]], %[[CII]], %[[KHI]], %[[KWI]]
// CHECK:         te.compute_at %x_inp, %[[CIO]]
// CHECK-NEXT:    te.compute_at %w_wgt, %[[KWO]]
// CHECK:         te.join
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @conv(%x: tensor<32x7x7x1x16xi8>, %w: tensor<32x32x3x3x16x16xi8>) -> tensor<32x7x7x1x16xi8> {
    %conv = te.compute "conv" (c = 32, h = 7, w = 7, b = 1, o = 16) reduce (ci = 32, kh = 3, kw = 3, k = 16)
        ins (%x[ci, h + kh - 1, w + kw - 1, b, k] outside 0 : tensor<32x7x7x1x16xi8>,
             %w[c, ci, kh, kw, o, k] : tensor<32x32x3x3x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<32x7x7x1x16xi32>
    %s = te.compute "s" (c = 32, h = 7, w = 7, b = 1, o = 16) ins (%conv[c, h, w, b, o] : tensor<32x7x7x1x16xi32>) {
    ^bb0(%a: i32):
      %n = arith.constant 8 : i32
      %0 = arith.shrsi %a, %n : i32
      te.yield %0 : i32
    } -> tensor<32x7x7x1x16xi32>
    %q = te.compute "q" (c = 32, h = 7, w = 7, b = 1, o = 16) ins (%s[c, h, w, b, o] : tensor<32x7x7x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<32x7x7x1x16xi8>
    te.yield %q : tensor<32x7x7x1x16xi8>
  }
}
