// RUN: vta-opt %s --target pynq -p quantize | filecheck %s

// A product of two activations. The scale of its accumulators is 1/8 * 1/8, times the factor 1/4;
// that of its result the power of two of it which the range needs. What reorders operands and
// result goes along, on the host: entries of 3 rows of b fill their 16 lanes.
builtin.module {
  func.func @attention(%q: tensor<1x5x2x20xf32> {graph.range = #graph.range<-16.0, 15.0>},
      %k: tensor<1x3x2x20xf32> {graph.range = #graph.range<-16.0, 15.0>}) -> tensor<1x2x3x5xf32> {
    %a = graph.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x20xf32>) -> tensor<1x2x5x20xf32>
    %b = graph.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x2x20xf32>) -> tensor<1x2x20x3xf32>
    %s = graph.matmul %a, %b {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x2x5x20xf32>, tensor<1x2x20x3xf32>) -> tensor<1x2x5x3xf32>
    %f = graph.constant dense<4.0> : tensor<f32>
    %d = graph.div %s, %f {graph.ranges = [#graph.range<-32.0, 31.75>]}
        : (tensor<1x2x5x3xf32>, tensor<f32>) -> tensor<1x2x5x3xf32>
    %t = graph.transpose %d {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x5x3xf32>) -> tensor<1x2x3x5xf32>
    %r = graph.relu %t {graph.ranges = [#graph.range<0.0, 31.75>]} : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
    func.return %r : tensor<1x2x3x5xf32>
  }
// CHECK-LABEL: @attention
// CHECK:         %[[Q:.*]] = graph.quantize %q {scale = 1.250000e-01 : f64, zero_point = 0 : i64}
// CHECK-NEXT:    %[[A:.*]] = graph.transpose %[[Q]] {graph.host_reason = "the host does it as it packs the matrices of a product", graph.host_kind = "layout", permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT:    %[[AR:.*]] = graph.reshape %[[A]] {{.*}} -> tensor<10x20xi8>
// CHECK-NEXT:    %[[K:.*]] = graph.quantize %k {scale = 1.250000e-01 : f64, zero_point = 0 : i64}
// CHECK-NEXT:    %[[B:.*]] = graph.transpose %[[K]] {{.*}}permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x20xi8>) -> tensor<1x2x3x20xi8>
// CHECK-NEXT:    %[[B3:.*]] = graph.reshape %[[B]]
// CHECK-NEXT:    %[[BP:.*]] = graph.pad %[[B3]] {{.*}} -> tensor<2x16x20xi8>
// CHECK-NEXT:    %[[BR:.*]] = graph.reshape %[[BP]] {{.*}} -> tensor<32x20xi8>
// CHECK-NEXT:    %[[ACC:.*]] = graph.batch_matmul %[[AR]], %[[BR]] {batch = 2 : i64} : (tensor<10x20xi8>, tensor<32x20xi8>) -> tensor<10x3xi32>
// CHECK-NEXT:    %[[BIAS:.*]] = graph.constant dense<32> : tensor<3xi32>
// CHECK-NEXT:    %[[SHIFT:.*]] = graph.constant dense<6> : tensor<3xi32>
// CHECK-NEXT:    %[[S:.*]] = graph.requantize %[[ACC]] bias %[[BIAS]] shift %[[SHIFT]] {lo = -128 : i64, hi = 127 : i64, scale = 2.500000e-01 : f64, zero_point = 0 : i64}
// CHECK-NEXT:    graph.reshape %[[S]] {{.*}} -> tensor<1x2x5x3xi8>
// CHECK-NEXT:    graph.transpose
// CHECK:         graph.requantize

  // Accumulators leave where only scores are compared. The zero points of the operands are products
  // with constants: 128 is 64, doubled.
  func.func @given(%x: tensor<3x20xf32>, %y: tensor<20x4xf32>) -> tensor<3x4xf32> {
    %a = graph.fake_quantize %x {scale = 0.5 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64} : (tensor<3x20xf32>) -> tensor<3x20xf32>
    %b = graph.fake_quantize %y {scale = 0.5 : f64, zero_point = 0 : i64, low = 0 : i64, high = 255 : i64} : (tensor<20x4xf32>) -> tensor<20x4xf32>
    %s = graph.matmul %a, %b : (tensor<3x20xf32>, tensor<20x4xf32>) -> tensor<3x4xf32>
    func.return %s : tensor<3x4xf32>
  }
// CHECK-LABEL: @given
// CHECK:         %[[W:.*]] = graph.constant #vtac.resource<"zero_point", {{.*}}> : tensor<4x20xi8>
// CHECK-NEXT:    %[[ROWS:.*]] = graph.gemm %[[A:.*]], %[[W]] {{.*}} -> tensor<3x4xi32>
// CHECK-NEXT:    %[[ONE:.*]] = graph.constant dense<1> : tensor<4xi32>
// CHECK-NEXT:    graph.shift_left %[[ROWS]], %[[ONE]]
// CHECK-NEXT:    %[[Z:.*]] = graph.constant dense<-3> : tensor<3x20xi8>
// CHECK-NEXT:    graph.batch_matmul %[[Z]], %[[B:.*]] {batch = 1 : i64}
// CHECK-NEXT:    graph.batch_matmul %[[A]], %[[B]] {batch = 1 : i64}
// CHECK:         graph.add_bias
// CHECK-NEXT:    graph.dequantize {{.*}}scales = array<f64: 2.500000e-01>

  // A constant that lies as no dense layer's weights do is laid out as activations are.
  func.func @constant(%y: tensor<20x4xf32> {graph.range = #graph.range<-1.0, 1.0>}) -> tensor<3x4xf32> {
    %w = graph.constant dense<0.5> : tensor<3x20xf32>
    %p = graph.matmul %w, %y {graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<3x20xf32>, tensor<20x4xf32>) -> tensor<3x4xf32>
    func.return %p : tensor<3x4xf32>
  }
// CHECK-LABEL: @constant
// CHECK:         %[[C:.*]] = graph.constant {{.*}} : tensor<3x20xi8>
// CHECK:         graph.batch_matmul %[[C]], {{.*}} -> tensor<3x4xi32>

  // Accumulators leave also where the host masks what it compares.
  func.func @masked(%x: tensor<1x3x20xf32> {graph.range = #graph.range<-1.0, 1.0>}, %y: tensor<1x20x4xf32> {graph.range = #graph.range<-1.0, 1.0>}, %m: tensor<1x1x4xf32>) -> tensor<1x3x4xf32> {
    %s = graph.matmul %x, %y {graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<1x3x20xf32>, tensor<1x20x4xf32>) -> tensor<1x3x4xf32>
    %a = graph.add %s, %m {graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<1x3x4xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
    %p = graph.host "Softmax"(%a) {domain = "", onnx_attributes = {axis = -1 : i64}} : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
    func.return %p : tensor<1x3x4xf32>
  }
// CHECK-LABEL: @masked
// CHECK:         graph.batch_matmul
// CHECK:         graph.add_bias
// CHECK-NEXT:    graph.dequantize
// CHECK:         graph.add {{.*}}graph.host_reason = "broadcasting addition

  // Declined: a bias that is none of columns, a negative factor, sums that could leave int32.
  func.func @declined(%x: tensor<3x20xf32> {graph.range = #graph.range<-1.0, 1.0>},
      %y: tensor<20x4xf32> {graph.range = #graph.range<-1.0, 1.0>}, %c: tensor<3x4xf32>,
      %l: tensor<1x140000xf32> {graph.range = #graph.range<-1.0, 1.0>},
      %m: tensor<140000x1xf32> {graph.range = #graph.range<-1.0, 1.0>})
      -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<1x1xf32>) {
    // CHECK: graph.gemm {{.*}}graph.host_reason = "its factor alpha is -1, not above 0"
    %p = graph.gemm %x, %y {alpha = -1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = false, graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<3x20xf32>, tensor<20x4xf32>) -> tensor<3x4xf32>
    // CHECK: graph.gemm {{.*}}graph.host_reason = "its bias is not constant"
    %g = graph.gemm %x, %y bias %c {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = false, graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<3x20xf32>, tensor<20x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    // CHECK: graph.matmul {{.*}}graph.host_reason = "a partial sum could leave int32"
    %o = graph.matmul %l, %m {graph.ranges = [#graph.range<-9.0, 9.0>]} : (tensor<1x140000xf32>, tensor<140000x1xf32>) -> tensor<1x1xf32>
    func.return %p, %g, %o : tensor<3x4xf32>, tensor<3x4xf32>, tensor<1x1xf32>
  }
}
