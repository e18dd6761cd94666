// RUN: vta-opt %s -p te-cut-calls | filecheck %s

// A call that is to have one part stays whole and says so. So does one whose results have different
// shapes.
builtin.module attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 0, dma = false>} {
  // CHECK-LABEL: func.func private @whole
  // CHECK-NEXT:  te.call @add(%x) {te.uncut = "it is to have one part"}
  func.func private @whole(%x : tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @add(%x) parts [1, 1, 1, 1, 1, 1] : (tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8>
    func.return %y : tensor<1x1x4x3x1x16xi8>
  }
  te.kernel @add(%x : tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8> {
    %s = te.compute "copy" (n = 1, c = 1, h = 4, w = 3, ni = 1, ci = 16)
        ins (%x[n, c, h, w, ni, ci] : tensor<1x1x4x3x1x16xi8>) {
      ^bb0(%v : i8):
        te.yield %v : i8
    } -> tensor<1x1x4x3x1x16xi8>
    te.yield %s : tensor<1x1x4x3x1x16xi8>
  }

  // CHECK-LABEL: func.func private @unlike
  // CHECK-NEXT:  te.call @halves(%x) {te.uncut = "its results have different shapes"}
  func.func private @unlike(%x : tensor<1x1x4x3x1x16xi8>) -> (tensor<1x1x4x3x1x16xi8>, tensor<1x1x2x3x1x16xi8>) attributes {codegen = "vta"} {
    %y, %z = te.call @halves(%x) : (tensor<1x1x4x3x1x16xi8>) -> (tensor<1x1x4x3x1x16xi8>, tensor<1x1x2x3x1x16xi8>)
    func.return %y, %z : tensor<1x1x4x3x1x16xi8>, tensor<1x1x2x3x1x16xi8>
  }
  te.kernel @halves(%x : tensor<1x1x4x3x1x16xi8>) -> (tensor<1x1x4x3x1x16xi8>, tensor<1x1x2x3x1x16xi8>) {
    %s = te.compute "copy" (n = 1, c = 1, h = 4, w = 3, ni = 1, ci = 16)
        ins (%x[n, c, h, w, ni, ci] : tensor<1x1x4x3x1x16xi8>) {
      ^bb0(%v : i8):
        te.yield %v : i8
    } -> tensor<1x1x4x3x1x16xi8>
    %t = te.compute "half" (n = 1, c = 1, h = 2, w = 3, ni = 1, ci = 16)
        ins (%x[n, c, h + h, w, ni, ci] : tensor<1x1x4x3x1x16xi8>) {
      ^bb0(%v : i8):
        te.yield %v : i8
    } -> tensor<1x1x2x3x1x16xi8>
    te.yield %s, %t : tensor<1x1x4x3x1x16xi8>, tensor<1x1x2x3x1x16xi8>
  }

  // A function for one core is left as it is.
  // CHECK-LABEL: func.func private @single
  // CHECK-NEXT:  te.call @add(%x) :
  func.func private @single(%x : tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8> attributes {codegen = "vta", vtac.target = #target.vta<"pynq">} {
    %y = te.call @add(%x) : (tensor<1x1x4x3x1x16xi8>) -> tensor<1x1x4x3x1x16xi8>
    func.return %y : tensor<1x1x4x3x1x16xi8>
  }
}
