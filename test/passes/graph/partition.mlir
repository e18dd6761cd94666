// RUN: vta-opt %s -p byte-planes,match-patterns,annotate,merge-regions,prune-regions,outline-regions,layout | filecheck %s

// Two convolutions around a residual addition become one region; what is between float and int8
// stays on the host.

builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @main(%x: tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32> {
    %w = graph.constant dense<1> : tensor<16x16x1x1xi8>
    %c = graph.constant dense<0> : tensor<16xi32>
    %s = graph.constant dense<3> : tensor<16xi32>
    %q = graph.quantize %x {scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xi8>
    %a = graph.conv %q, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x4x4xi8>, tensor<16x16x1x1xi8>) -> tensor<1x16x4x4xi32>
    %b = graph.requantize %a bias %c shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x16x4x4xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<1x16x4x4xi8>
    %d = graph.conv %b, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x4x4xi8>, tensor<16x16x1x1xi8>) -> tensor<1x16x4x4xi32>
    %e = graph.shift_left %q, %s : (tensor<1x16x4x4xi8>, tensor<16xi32>) -> tensor<1x16x4x4xi32>
    %f = graph.add %d, %e : (tensor<1x16x4x4xi32>, tensor<1x16x4x4xi32>) -> tensor<1x16x4x4xi32>
    %g = graph.requantize %f bias %c shift %s {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x16x4x4xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<1x16x4x4xi8>
    %y = graph.dequantize %g {scales = array<f64: 1.0>, zero_point = 0 : i64} : (tensor<1x16x4x4xi8>) -> tensor<1x16x4x4xf32>
    %z = graph.host "Sin"(%y) {domain = "", onnx_attributes = {}} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
    func.return %z : tensor<1x16x4x4xf32>
  }
}

// CHECK:      func.func @main
// CHECK:        %q = graph.quantize
// CHECK-NEXT:   %[[P:.*]] = graph.pack %q : (tensor<1x16x4x4xi8>) -> tensor<1x16x4x4xi8, #graph.packed<1, 16>>
// CHECK-NEXT:   %[[G:.*]] = func.call @vta_0(%[[P]])
// CHECK-NEXT:   %[[U:.*]] = graph.unpack %[[G]]
// CHECK-NEXT:   graph.dequantize %[[U]]
// CHECK-NEXT:   graph.host "Sin"{{.*}}graph.host_reason = "operator Sin is not supported on the accelerator"
// CHECK:      func.func private @vta_0(%q: tensor<1x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<1x16x4x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.vta<"pynq">}
// CHECK:        graph.composite "vta.accumulate_requantize"(%q)
// CHECK:          graph.conv
// CHECK:          graph.requantize
// CHECK:        graph.composite "vta.accumulate_requantize"
// CHECK:          graph.shift_left
// CHECK:          graph.add
// CHECK:          graph.requantize
// CHECK:        func.return
