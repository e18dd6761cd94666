// RUN: vta-opt %s -p canonicalize-graph | filecheck %s

// CHECK-LABEL: @batch_norm
func.func @batch_norm(%x: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
  // factor = scale / sqrt(variance + epsilon) = [2, 1]; offset = bias - mean * factor = [-1, 3]
  %w = graph.constant dense<[[[1.0]], [[5.0]]]> : tensor<2x1x1xf32>
  %b = graph.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %scale = graph.constant dense<[4.0, 2.0]> : tensor<2xf32>
  %bias = graph.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %mean = graph.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %variance = graph.constant dense<[3.0, 3.0]> : tensor<2xf32>
  // CHECK-NEXT: %w = graph.constant dense<{{\[\[\[}}2.000000e+00]], {{\[\[}}5.000000e+00]]]> : tensor<2x1x1xf32>
  // CHECK-NEXT: %b = graph.constant dense<[1.900000e+01, 2.300000e+01]> : tensor<2xf32>
  // CHECK-NEXT: %n = graph.conv %x, %w bias %b
  // CHECK-NEXT: func.return %n
  %y = graph.conv %x, %w bias %b {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x4xf32>, tensor<2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  %n = graph.batch_norm %y, %scale, %bias, %mean, %variance {epsilon = 1.0 : f64} : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %n : tensor<1x2x4xf32>
}

// CHECK-LABEL: @conv_with_two_readers
func.func @conv_with_two_readers(%x: tensor<1x1x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  %w = graph.constant dense<1.0> : tensor<2x1x1xf32>
  %v = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: %y = graph.conv %x, %w {
  // CHECK: graph.batch_norm %y
  %y = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4xf32>
  %n = graph.batch_norm %y, %v, %v, %v, %v {epsilon = 1.0 : f64} : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %y, %n : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}

// CHECK-LABEL: @add_and_mul
func.func @add_and_mul(%x: tensor<1x1x2xf32>) -> tensor<1x2x2xf32> {
  %w = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %c = graph.constant dense<[[3.0], [4.0]]> : tensor<2x1xf32>
  %k = graph.constant dense<2.0> : tensor<f32>
  // CHECK: graph.constant dense<{{\[\[\[}}2.000000e+00]], {{\[\[}}4.000000e+00]]]>
  // CHECK: graph.constant dense<[6.000000e+00, 8.000000e+00]> : tensor<2xf32>
  // CHECK: graph.conv
  // CHECK-NEXT: func.return
  %y = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x2xf32>, tensor<2x1x1xf32>) -> tensor<1x2x2xf32>
  %a = graph.add %c, %y : (tensor<2x1xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %m = graph.mul %a, %k : (tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
  func.return %m : tensor<1x2x2xf32>
}

// One number a column is no bias.
// CHECK-LABEL: @add_along_width
func.func @add_along_width(%x: tensor<1x1x2xf32>) -> tensor<1x2x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x1x1xf32>
  %c = graph.constant dense<[3.0, 4.0]> : tensor<2xf32>
  // CHECK: graph.add
  %y = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x2xf32>, tensor<2x1x1xf32>) -> tensor<1x2x2xf32>
  %a = graph.add %y, %c : (tensor<1x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  func.return %a : tensor<1x2x2xf32>
}

// CHECK-LABEL: @dense
func.func @dense(%x: tensor<?x2xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  %w = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %c = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  // CHECK: dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]> : tensor<3x2xf32>
  // CHECK: dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  // CHECK: graph.gemm %x, {{.*}} bias {{.*}} {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64, trans_a = false, trans_b = true}
  %m = graph.matmul %x, %w : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  %a = graph.add %m, %c : (tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>
  // CHECK: dense<[5.000000e-01, 1.000000e+00, 1.500000e+00]> : tensor<3xf32>
  // CHECK: dense<{{\[\[}}2.000000e+00, 8.000000e+00], [4.000000e+00, 1.000000e+01], [6.000000e+00, 1.200000e+01]]> : tensor<3x2xf32>
  // CHECK: graph.gemm %x, {{.*}} bias {{.*}} {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64, trans_a = false, trans_b = true}
  %g = graph.gemm %x, %w bias %c {alpha = 2.0 : f64, beta = 0.5 : f64, trans_a = false, trans_b = false} : (tensor<?x2xf32>, tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>
  func.return %a, %g : tensor<?x3xf32>, tensor<?x3xf32>
}

// CHECK-LABEL: @dense_declines
func.func @dense_declines(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %c = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %k = graph.constant dense<1.0> : tensor<2x2xf32>
  // Weights that are not constant; a transposed input; a bias a row.
  // CHECK: graph.matmul
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: trans_a = true
  %g = graph.gemm %x, %k {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = true, trans_b = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: trans_b = false
  %h = graph.gemm %x, %k bias %c {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = false} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return %m, %g, %h : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: @pad
func.func @pad(%x: tensor<1x1x4xf32>)
    -> (tensor<1x1x5xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x3xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x1x3xf32>
  // CHECK: graph.conv %x, %w {{.*}}pads = array<i64: 1, 2>
  %p = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 2>, value = 0.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x7xf32>
  %y = graph.conv %p, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x7xf32>, tensor<1x1x3xf32>) -> tensor<1x1x5xf32>
  // A zero does no harm to a maximum of numbers that are not negative.
  // CHECK: graph.max_pool %r {{.*}}pads = array<i64: 1, 0>
  %r = graph.relu %x : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  %q = graph.pad %r {pads = array<i64: 0, 0, 1, 0, 0, 0>, value = 0.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %m = graph.max_pool %q {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x1x5xf32>) -> tensor<1x1x4xf32>
  // Nor does the lowest number to one of any numbers.
  // CHECK: graph.max_pool %x {{.*}}pads = array<i64: 0, 1>
  %l = graph.pad %x {pads = array<i64: 0, 0, 0, 0, 0, 1>, value = -3.4028234663852886e+38 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %n = graph.max_pool %l {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x1x5xf32>) -> tensor<1x1x4xf32>
  // CHECK: graph.average_pool %x {{.*}}pads = array<i64: 0, 1>{{.*}}count_include_pad = true
  %s = graph.pad %x {pads = array<i64: 0, 0, 0, 0, 0, 1>, value = 0.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %a = graph.average_pool %s {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, count_include_pad = false} : (tensor<1x1x5xf32>) -> tensor<1x1x3xf32>
  // CHECK-NEXT: func.return
  func.return %y, %m, %n, %a : tensor<1x1x5xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x3xf32>
}

// CHECK-LABEL: @pad_declines
func.func @pad_declines(%x: tensor<1x1x4xf32>) -> (tensor<1x1x3xf32>, tensor<1x1x4xf32>, tensor<1x1x3xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x1x3xf32>
  // Ones are no zeros.
  // CHECK: graph.pad
  %p = graph.pad %x {pads = array<i64: 0, 0, 0, 0, 0, 1>, value = 1.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %y = graph.conv %p, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x5xf32>, tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
  // A zero may win over negative numbers.
  // CHECK: graph.pad
  %q = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 0>, value = 0.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %m = graph.max_pool %q {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x1x5xf32>) -> tensor<1x1x4xf32>
  // Zeros in a second channel are no pads of a window.
  // CHECK: graph.pad
  %c = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 1, 0>, value = 0.0 : f64} : (tensor<1x1x4xf32>) -> tensor<1x2x5xf32>
  %v = graph.constant dense<1.0> : tensor<1x2x3xf32>
  %z = graph.conv %c, %v {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x2x5xf32>, tensor<1x2x3xf32>) -> tensor<1x1x3xf32>
  func.return %y, %m, %z : tensor<1x1x3xf32>, tensor<1x1x4xf32>, tensor<1x1x3xf32>
}

// CHECK-LABEL: @identities
func.func @identities(%x: tensor<1x2x1xf32>, %d: tensor<?x2xf32>) -> (tensor<2xf32>, tensor<?x2xf32>) {
  // CHECK-NEXT: graph.relu %x
  // CHECK-NEXT: graph.reshape {{.*}} : (tensor<1x2x1xf32>) -> tensor<2xf32>
  %r = graph.relu %x : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %rr = graph.relu %r : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %c = graph.clip %rr : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %m = graph.max_pool %c {kernel = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %s = graph.host "Squeeze" (%m) {domain = "", onnx_attributes = {axes = array<i64: 0>}} : (tensor<1x2x1xf32>) -> tensor<2x1xf32>
  %t = graph.reshape %s : (tensor<2x1xf32>) -> tensor<2xf32>
  %u = graph.reshape %t : (tensor<2xf32>) -> tensor<2xf32>
  // Nothing reads it.
  %e = graph.host "Exp" (%u) {domain = "", onnx_attributes = {}} : (tensor<2xf32>) -> tensor<2xf32>
  // Equal types with an unknown extent prove nothing.
  // CHECK-NEXT: graph.reshape %d
  %v = graph.reshape %d : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %u, %v : tensor<2xf32>, tensor<?x2xf32>
}

// Rows of more dimensions are the rows of one matrix; what works on each element comes before the
// reshape, and layers in a row need none between them.
// CHECK-LABEL: @rows
func.func @rows(%x: tensor<2x5x2xf32>) -> tensor<2x5x2xf32> {
  %w = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %v = graph.constant dense<1.0> : tensor<3x2xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // CHECK: graph.reshape %x : (tensor<2x5x2xf32>) -> tensor<10x2xf32>
  // CHECK: graph.gemm {{.*}} bias {{.*}} -> tensor<10x3xf32>
  // CHECK-NEXT: graph.relu {{.*}} -> tensor<10x3xf32>
  // CHECK: graph.gemm {{.*}} -> tensor<10x2xf32>
  // CHECK-NEXT: graph.reshape {{.*}} -> tensor<2x5x2xf32>
  // CHECK-NEXT: func.return
  %m = graph.matmul %x, %w : (tensor<2x5x2xf32>, tensor<2x3xf32>) -> tensor<2x5x3xf32>
  %a = graph.add %b, %m : (tensor<3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %r = graph.relu %a : (tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %y = graph.matmul %r, %v : (tensor<2x5x3xf32>, tensor<3x2xf32>) -> tensor<2x5x2xf32>
  func.return %y : tensor<2x5x2xf32>
}

// A constant that varies along the rows stays where it is.
// CHECK-LABEL: @rows_decline
func.func @rows_decline(%x: tensor<2x5x2xf32>) -> tensor<2x5x3xf32> {
  %w = graph.constant dense<1.0> : tensor<2x3xf32>
  %b = graph.constant dense<1.0> : tensor<5x1xf32>
  // CHECK: graph.reshape {{.*}} -> tensor<2x5x3xf32>
  // CHECK-NEXT: graph.add
  %m = graph.matmul %x, %w : (tensor<2x5x2xf32>, tensor<2x3xf32>) -> tensor<2x5x3xf32>
  %a = graph.add %m, %b : (tensor<2x5x3xf32>, tensor<5x1xf32>) -> tensor<2x5x3xf32>
  func.return %a : tensor<2x5x3xf32>
}

// A channel shuffle is another order of channels; a transpose that moves extents of 1 a reshape.
// CHECK-LABEL: @shuffle
func.func @shuffle(%x: tensor<1x6x1x2xf32>, %z: tensor<2x6x1x1xf32>) -> (tensor<1x6x1x2xf32>, tensor<2x1x1x6xf32>, tensor<1x6x1x2xf32>) {
  // CHECK-NEXT: graph.take_channels %x {indices = array<i64: 0, 3, 1, 4, 2, 5>}
  %a = graph.reshape %x : (tensor<1x6x1x2xf32>) -> tensor<1x2x3x1x2xf32>
  %b = graph.transpose %a {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x3x1x2xf32>) -> tensor<1x3x2x1x2xf32>
  %c = graph.reshape %b : (tensor<1x3x2x1x2xf32>) -> tensor<1x6x1x2xf32>
  // CHECK-NEXT: graph.reshape %z : (tensor<2x6x1x1xf32>) -> tensor<2x1x1x6xf32>
  %t = graph.transpose %z {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x6x1x1xf32>) -> tensor<2x1x1x6xf32>
  // Here channels change places with space.
  // CHECK-NEXT: graph.reshape
  // CHECK-NEXT: graph.transpose
  // CHECK-NEXT: graph.reshape
  %d = graph.reshape %x : (tensor<1x6x1x2xf32>) -> tensor<1x2x3x2xf32>
  %e = graph.transpose %d {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x2x3x2xf32>) -> tensor<1x2x2x3xf32>
  %f = graph.reshape %e : (tensor<1x2x2x3xf32>) -> tensor<1x6x1x2xf32>
  func.return %c, %t, %f : tensor<1x6x1x2xf32>, tensor<2x1x1x6xf32>, tensor<1x6x1x2xf32>
}
