// RUN: vta-opt %s -p te-cut-calls | filecheck %s

// Two rows on each of two cores: the second needs one row of the first's, the first has the border.
builtin.module attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 0, dma = false>} {
  func.func private @f(%x : tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @smooth(%x) : (tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8>
    func.return %y : tensor<1x1x4x3x1x16xi8>
  }
  te.kernel @smooth(%x : tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8> {
    %s = te.compute "max" (n = 1, c = 1, h = 4, w = 3, ni = 1, ci = 16) reduce (kh = 2)
        ins (%x[n, c, h + kh - 1, w, ni, ci] outside -128 : tensor<1x1x4x3x1x16xi8>) identity -128 {
      ^bb0(%acc : i32, %v : i8):
        %e = arith.extsi %v : i8 to i32
        %m = arith.maxsi %acc, %e : i32
        te.yield %m : i32
    } -> tensor<1x1x4x3x1x16xi32>
    %n = te.compute "narrow" (n = 1, c = 1, h = 4, w = 3, ni = 1, ci = 16)
        ins (%s[n, c, h, w, ni, ci] : tensor<1x1x4x3x1x16xi32>) {
      ^bb0(%v : i32):
        %t = arith.trunci %v : i32 to i8
        te.yield %t : i8
    } -> tensor<1x1x4x3x1x16xi8>
    te.yield %n : tensor<1x1x4x3x1x16xi8>
  }
}

// CHECK:      [[A:%.*]] = te.window %x [0 : 1, 0 : 1, 0 : 2, 0 : 3, 0 : 1, 0 : 16]
// CHECK-NEXT: [[P:%.*]] = te.call @smooth_part([[A]]) :
// CHECK-NEXT: [[B:%.*]] = te.window %x [0 : 1, 0 : 1, 1 : 3, 0 : 3, 0 : 1, 0 : 16]
// CHECK-NEXT: [[Q:%.*]] = te.call @smooth_part1([[B]]) core 1 :
// CHECK-NEXT: te.assemble ([[P]] at [0, 0, 0, 0, 0, 0], [[Q]] at [0, 0, 2, 0, 0, 0])
// CHECK-NOT:  te.kernel @smooth(
// CHECK:      te.kernel @smooth_part(
// CHECK:      ins (%x{{.*}}[n, c, h + kh - 1, w, ni, ci] outside -128 : tensor<1x1x2x3x1x16xi8>)
// CHECK:      te.kernel @smooth_part1(
// CHECK:      ins (%x{{.*}}[n, c, h + kh, w, ni, ci] : tensor<1x1x3x3x1x16xi8>)
