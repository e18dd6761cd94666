// RUN: vta-opt %s | vta-opt | filecheck %s
// RUN: vta-opt %s --print-op-generic | vta-opt | filecheck %s

// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<2x8x4xi8>, %y: tensor<2x2x4xi8>) -> tensor<2x4x4xi8> {
  // CHECK-NEXT: %{{.*}} = te.window %{{.*}} [0 : 2, 3 : 2, 0 : 4] : tensor<2x8x4xi8> to tensor<2x2x4xi8>
  %0 = te.window %x [0 : 2, 3 : 2, 0 : 4] : tensor<2x8x4xi8> to tensor<2x2x4xi8>
  // CHECK-NEXT: %{{.*}} = te.assemble (%{{.*}} at [0, 0, 0], %{{.*}} at [0, 2, 0]) : tensor<2x4x4xi8>
  %1 = te.assemble (%0 at [0, 0, 0], %y at [0, 2, 0]) : tensor<2x4x4xi8>
  func.return %1 : tensor<2x4x4xi8>
}
