// RUN: not vta-opt %s -p te-to-loops 2>&1 | filecheck %s

te.kernel @k(%x: tensor<4xi8>) -> tensor<4xi8> {
  te.yield %x : tensor<4xi8>
}
// CHECK: te.kernel @k: result 0 is not a te.compute of its own
