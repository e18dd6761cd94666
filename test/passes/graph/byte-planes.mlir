// RUN: vta-opt %s -p byte-planes | filecheck %s

func.func @split(%acc: tensor<1x10xi32>, %b: tensor<10xi32>) -> tensor<1x10xi32> {
  %y = graph.add_bias %acc, %b : (tensor<1x10xi32>, tensor<10xi32>) -> tensor<1x10xi32>
  func.return %y : tensor<1x10xi32>
}
// CHECK-LABEL: @split
// CHECK:       %y = graph.add_bias
// CHECK-NEXT:  %0, %1, %2, %3 = graph.split_bytes %y
// CHECK-NEXT:  %[[J:.*]] = graph.join_bytes %0, %1, %2, %3
// CHECK-NEXT:  func.return %[[J]]

// What is split already stays as it is.
func.func @already(%acc: tensor<1x10xi32>, %b: tensor<10xi32>) -> tensor<1x10xi8> {
  %y = graph.add_bias %acc, %b : (tensor<1x10xi32>, tensor<10xi32>) -> tensor<1x10xi32>
  %p:4 = graph.split_bytes %y : (tensor<1x10xi32>) -> (tensor<1x10xi8>, tensor<1x10xi8>, tensor<1x10xi8>, tensor<1x10xi8>)
  func.return %p#0 : tensor<1x10xi8>
}
// CHECK-LABEL: @already
// CHECK:       graph.split_bytes
// CHECK-NOT:   graph.join_bytes
