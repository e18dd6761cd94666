// RUN: vta-opt %S/../../docs/matrix_product.mlir -p te-estimate -o %t
// RUN: filecheck %s < %t
// RUN: sed 's/slots 1/slots 2/; /te.vthread/d' %S/../../docs/matrix_product.mlir | vta-opt -p te-estimate | filecheck %s --check-prefix SLOTS
// RUN: sed '/te.vthread/d' %S/../../docs/matrix_product.mlir | vta-opt -p te-estimate | filecheck %s --check-prefix PLAIN
// RUN: sed 's/te.vthread %%jt/te.vthread %%k1/' %S/../../docs/matrix_product.mlir | not vta-opt -p te-estimate 2>&1 | filecheck %s --check-prefix REFUSED
// RUN: vta-opt %s -p "te-schedule-conv2d{h=4 w=8 ci=1 co=1 oc-threads=2},te-estimate" | filecheck %s --check-prefix CONV
// RUN: vta-opt %s -p "te-estimate{kernel=other}" | filecheck %s --check-prefix NONE

// A schedule written by hand, with its virtual threads: as many cycles as its program takes.
// CHECK: te.schedule @y attributes {estimate = 2764 : i64} {
// CHECK: te.vthread %jt

// Without threads, and with two slots instead.
// PLAIN: te.schedule @y attributes {estimate = 2764 : i64} {
// SLOTS: te.schedule @y attributes {estimate = {{[0-9]+}} : i64} {
// REFUSED: te.schedule @y, step 23 (te.vthread)

// One by TVM's template.
// CONV: te.schedule @k attributes {estimate = {{[0-9]+}} : i64} {
// NONE-NOT: estimate
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @k(%x: tensor<1x2x8x8x1x16xi8>, %w: tensor<2x2x3x1x16x16xi8>) -> tensor<1x2x8x8x1x16xi8> {
    %p = te.compute "p" (n = 1, c = 2, h = 8, w = 8, b = 1, o = 16) reduce (i = 2, s = 3, t = 1, k = 16)
        ins (%x[n, i, h + s - 1, w, b, k] outside 0 : tensor<1x2x8x8x1x16xi8>, %w[c, i, s, t, o, k] : tensor<2x2x3x1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x2x8x8x1x16xi32>
    %q = te.compute "q" (n = 1, c = 2, h = 8, w = 8, b = 1, o = 16) ins (%p[n, c, h, w, b, o] : tensor<1x2x8x8x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x2x8x8x1x16xi8>
    te.yield %q : tensor<1x2x8x8x1x16xi8>
  }
}
