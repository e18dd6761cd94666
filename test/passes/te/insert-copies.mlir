// RUN: vta-opt %s -p te-insert-copies --split-input-file | filecheck %s

// Both parts are written in place, and a window is read where it lies: nothing is inserted.
// CHECK-LABEL: @in_place
// CHECK-NEXT:    %[[W:.*]] = te.window
// CHECK-NEXT:    %[[A:.*]] = te.call @k(%[[W]])
// CHECK-NEXT:    %[[B:.*]] = te.call @k(%[[A]])
// CHECK-NEXT:    te.assemble (%[[A]] at [0, 0, 0], %[[B]] at [4, 0, 0])
// CHECK-NOT:   te.kernel @copy0
func.func private @in_place(%x: tensor<6x1x16xi8>) -> tensor<8x1x16xi8> attributes {codegen = "vta"} {
  %0 = te.window %x [1 : 4, 0 : 1, 0 : 16] : tensor<6x1x16xi8> to tensor<4x1x16xi8>
  %a = te.call @k(%0) : (tensor<4x1x16xi8>) -> tensor<4x1x16xi8>
  %b = te.call @k(%a) : (tensor<4x1x16xi8>) -> tensor<4x1x16xi8>
  %y = te.assemble (%a at [0, 0, 0], %b at [4, 0, 0]) : tensor<8x1x16xi8>
  func.return %y : tensor<8x1x16xi8>
}
te.kernel @k(%x: tensor<4x1x16xi8>) -> tensor<4x1x16xi8> {
  te.yield %x : tensor<4x1x16xi8>
}

// -----

// The argument has a buffer of its own, and so has a result: parts of one tensor are copies of them.
// CHECK-LABEL: @elsewhere
// CHECK-NEXT:    %[[B:.*]] = te.call @k(%{{.*}})
// CHECK-NEXT:    %[[C:.*]] = te.call @copy0(%{{.*}})
// CHECK-NEXT:    %[[D:.*]] = te.call @copy0(%[[B]])
// CHECK-NEXT:    %[[Y:.*]] = te.assemble (%[[C]] at [0, 0, 0], %[[D]] at [4, 0, 0])
// CHECK-NEXT:    func.return %[[Y]], %[[B]]
// CHECK:       te.kernel @copy0
// CHECK-NEXT:    te.compute "copy" (d0 = 4, d1 = 1, d2 = 16)
// CHECK:         te.compute "narrow" (d0 = 4, d1 = 1, d2 = 16)
func.func private @elsewhere(%x: tensor<4x1x16xi8>) -> (tensor<8x1x16xi8>, tensor<4x1x16xi8>) attributes {codegen = "vta"} {
  %b = te.call @k(%x) : (tensor<4x1x16xi8>) -> tensor<4x1x16xi8>
  %y = te.assemble (%x at [0, 0, 0], %b at [4, 0, 0]) : tensor<8x1x16xi8>
  func.return %y, %b : tensor<8x1x16xi8>, tensor<4x1x16xi8>
}
te.kernel @k(%x: tensor<4x1x16xi8>) -> tensor<4x1x16xi8> {
  te.yield %x : tensor<4x1x16xi8>
}
