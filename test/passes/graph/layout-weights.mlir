// RUN: vta-opt %s -p layout --split-input-file --verify-diagnostics | filecheck %s

// What a product reads as weights is packed as these are. An argument that it reads both ways is
// passed twice: to the composite, and to the function.
builtin.module {
  func.func @main(%q: tensor<3x20xi8>) -> tensor<3x3xi8> {
    %a = func.call @vta_0(%q) : (tensor<3x20xi8>) -> tensor<3x3xi8>
    func.return %a : tensor<3x3xi8>
  }
  func.func private @vta_0(%x: tensor<3x20xi8>) -> tensor<3x3xi8> attributes {codegen = "vta", vtac.target = #target.vta<"sim", log_batch = 1>} {
    %y = graph.composite "vta.accumulate_requantize"(%x) {codegen = "vta"} : (tensor<3x20xi8>) -> tensor<3x3xi8> {
    ^bb0(%0: tensor<3x20xi8>):
      %v = graph.constant dense<1> : tensor<3xi32>
      %acc = graph.batch_matmul %0, %0 {batch = 1 : i64} : (tensor<3x20xi8>, tensor<3x20xi8>) -> tensor<3x3xi32>
      %r = graph.requantize %acc bias %v shift %v {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<3x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<3x3xi8>
      graph.yield %r : tensor<3x3xi8>
    }
    func.return %y : tensor<3x3xi8>
  }
}
// CHECK:       func.func @main
// CHECK-DAG:     %[[A:.*]] = graph.pack %q : (tensor<3x20xi8>) -> tensor<3x20xi8, #graph.packed<2, 16>>
// CHECK-DAG:     %[[W:.*]] = graph.pack %q : (tensor<3x20xi8>) -> tensor<3x20xi8, #graph.packed<16, 16, weights>>
// CHECK:         func.call @vta_0(%[[A]], %[[W]])
// CHECK:       func.func private @vta_0(%x: tensor<3x20xi8, #graph.packed<2, 16>>, %[[X:.*]]: tensor<3x20xi8, #graph.packed<16, 16, weights>>)
// CHECK-NEXT:    graph.composite "vta.accumulate_requantize"(%x, %[[X]])
// CHECK-NEXT:    ^bb0(%[[P:.*]]: tensor<3x20xi8, #graph.packed<2, 16>>, %[[Q:.*]]: tensor<3x20xi8, #graph.packed<16, 16, weights>>):
// CHECK:           graph.batch_matmul %[[P]], %[[Q]]

// -----

// A function cannot read as weights what it makes.
builtin.module {
  func.func private @vta_0(%x: tensor<3x20xi8>) -> tensor<3x3xi32> attributes {codegen = "vta", vtac.target = #target.vta<"sim", log_batch = 1>} {
    %y = graph.reshape %x : (tensor<3x20xi8>) -> tensor<3x20xi8>
    %acc = graph.batch_matmul %x, %y {batch = 1 : i64} : (tensor<3x20xi8>, tensor<3x20xi8>) -> tensor<3x3xi32>
    func.return %acc : tensor<3x3xi32>
  }
}
// CHECK: function @vta_0: it reads as weights what it computes itself
