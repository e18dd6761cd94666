// RUN: vta-opt %s -p te-to-loops --split-input-file --verify-diagnostics | filecheck %s

te.kernel @k(%x: tensor<4xi8>) -> tensor<4xi8> {
  te.yield %x : tensor<4xi8>
}
// CHECK: te.kernel @k: result 0 is not a te.compute of its own

// -----
te.kernel @k(%x: tensor<4xi8>) -> tensor<8xi8> {
  %q = te.compute "up" (h = 8) ins (%x[(h + 1) / 2] outside 0 : tensor<4xi8>) {
  ^bb0(%a: i8):
    te.yield %a : i8
  } -> tensor<8xi8>
  te.yield %q : tensor<8xi8>
}
// CHECK: te.kernel @k, stage "up": a subscript is divided, which loops cannot do
