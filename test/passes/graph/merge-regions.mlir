// RUN: vta-opt %s -p merge-regions | filecheck %s

// A diamond: %a feeds %d directly and through the host. Merging them would make a cycle, so the
// region of %a takes %b, and %d is another one.
func.func @diamond(%q: tensor<1x16xi8>) -> (tensor<1x16xi8>, tensor<1x16xi8>) {
  %a = graph.composite "vta.a"(%q) {codegen = "vta"} : (tensor<1x16xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16xi8>):
    graph.yield %x : tensor<1x16xi8>
  }
  %b = graph.composite "vta.b"(%a) {codegen = "vta"} : (tensor<1x16xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16xi8>):
    graph.yield %x : tensor<1x16xi8>
  }
  %h = graph.host "Neg"(%a) {domain = "", onnx_attributes = {}} : (tensor<1x16xi8>) -> tensor<1x16xi8>
  %d = graph.composite "vta.d"(%a, %h) {codegen = "vta"} : (tensor<1x16xi8>, tensor<1x16xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16xi8>, %y: tensor<1x16xi8>):
    graph.yield %y : tensor<1x16xi8>
  }
  func.return %b, %d : tensor<1x16xi8>, tensor<1x16xi8>
}
// CHECK-LABEL: @diamond
// CHECK:       graph.composite "vta.a"(%q) {graph.region = 0 : i64, graph.apart
// CHECK:       graph.composite "vta.b"(%a) {graph.region = 0 : i64
// CHECK:       graph.composite "vta.d"(%a, %h) {graph.region = 1 : i64, graph.apart

// What has no codegen belongs to no region.
func.func @host(%q: tensor<1x16xi8>) -> tensor<1x16xi8> {
  %a = graph.composite "vta.a"(%q) : (tensor<1x16xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16xi8>):
    graph.yield %x : tensor<1x16xi8>
  }
  func.return %a : tensor<1x16xi8>
}
// CHECK-LABEL: @host
// CHECK-NOT:   graph.region

// What a product reads as weights comes from outside its region, not from %a nor by way of %b.
func.func @weights(%q: tensor<4x16xi8>) -> tensor<4x4xi32> {
  %a = graph.composite "vta.a"(%q) {codegen = "vta"} : (tensor<4x16xi8>) -> tensor<4x16xi8> {
  ^bb0(%x: tensor<4x16xi8>):
    graph.yield %x : tensor<4x16xi8>
  }
  %b = graph.composite "vta.b"(%a) {codegen = "vta"} : (tensor<4x16xi8>) -> tensor<4x16xi8> {
  ^bb0(%x: tensor<4x16xi8>):
    graph.yield %x : tensor<4x16xi8>
  }
  %c = graph.composite "vta.c"(%b, %a) {codegen = "vta"} : (tensor<4x16xi8>, tensor<4x16xi8>) -> tensor<4x4xi32> {
  ^bb0(%x: tensor<4x16xi8>, %y: tensor<4x16xi8>):
    %z = graph.batch_matmul %x, %y {batch = 1 : i64} : (tensor<4x16xi8>, tensor<4x16xi8>) -> tensor<4x4xi32>
    graph.yield %z : tensor<4x4xi32>
  }
  func.return %c : tensor<4x4xi32>
}
// CHECK-LABEL: @weights
// CHECK:       graph.composite "vta.a"(%q) {graph.region = 0 : i64
// CHECK:       graph.composite "vta.b"(%a) {graph.region = 0 : i64
// CHECK:       graph.composite "vta.c"(%b, %a) {graph.region = 1 : i64
