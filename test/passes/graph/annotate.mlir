// RUN: vta-opt %s -p annotate | filecheck %s

func.func @main(%x: tensor<1x3x8x8xf32>, %q: tensor<1x3x8x8xi8>) -> (tensor<1x3x4x4xi8>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) {
  %p = graph.composite "vta.max_pool"(%q) : (tensor<1x3x8x8xi8>) -> tensor<1x3x4x4xi8> {
  ^bb0(%a: tensor<1x3x8x8xi8>):
    %m = graph.max_pool %a {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xi8>) -> tensor<1x3x4x4xi8>
    graph.yield %m : tensor<1x3x4x4xi8>
  }
  %r = graph.relu %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %h = graph.host "Erf"(%x) {domain = "", onnx_attributes = {}} : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  func.return %p, %r, %h : tensor<1x3x4x4xi8>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>
}
// CHECK:  graph.composite "vta.max_pool"(%q) {codegen = "vta"}
// CHECK:  graph.relu %x {graph.host_reason = "it computes with real numbers: nothing calibrated its quantisation", graph.host_kind = "type", graph.host_hint = "Give samples of the inputs: --calibrate data.npz."}
// CHECK:  graph.host "Erf"(%x) {graph.host_reason = "operator Erf is not supported on the accelerator"

// A composite of a codegen that is not here stays on the host.
func.func @other(%q: tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xi8> {
  %p = graph.composite "npu.copy"(%q) : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xi8> {
  ^bb0(%a: tensor<1x3x8x8xi8>):
    graph.yield %a : tensor<1x3x8x8xi8>
  }
  func.return %p : tensor<1x3x8x8xi8>
}
// CHECK-LABEL: @other
// CHECK-NOT:   codegen =
