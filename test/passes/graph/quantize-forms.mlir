// RUN: vta-opt %s -p quantize | filecheck %s

// Ops that select or scale are sums of convolutions. With ranges of [-128, 127] all scales are 1:
// a weight of 64 and a shift by 6 stand for 1.

builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @concat(%x: tensor<1x1x2x2xf32> {graph.range = #graph.range<-128.0, 127.0>},
      %y: tensor<1x2x2x2xf32> {graph.range = #graph.range<-128.0, 127.0>}) -> tensor<1x3x2x2xf32> {
    %c = graph.concat %x, %y {axis = 1 : i64, graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x3x2x2xf32>
    %r = graph.relu %c {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
    func.return %r : tensor<1x3x2x2xf32>
  }

// CHECK-LABEL: @concat
// CHECK:         graph.constant dense<{{\[\[\[\[}}64]]], {{\[\[\[}}0]]], {{\[\[\[}}0]]]]> : tensor<3x1x1x1xi8>
// CHECK-NEXT:    [[A:%[0-9]+]] = graph.conv
// CHECK:         graph.constant dense<{{\[\[\[\[}}0]], {{\[\[}}0]]], {{\[\[\[}}64]], {{\[\[}}0]]], {{\[\[\[}}0]], {{\[\[}}64]]]]> : tensor<3x2x1x1xi8>
// CHECK-NEXT:    [[B:%[0-9]+]] = graph.conv
// CHECK-NEXT:    [[SUM:%[0-9]+]] = graph.add [[A]], [[B]]
// CHECK:         graph.requantize [[SUM]] {{.*}}lo = 0 : i64

  // A convolution of joined channels is one of each tensor that has some of them.
  func.func @apart(%x: tensor<1x1x4xf32> {graph.range = #graph.range<-128.0, 127.0>},
      %y: tensor<1x2x4xf32> {graph.range = #graph.range<-64.0, 63.0>}) -> tensor<1x1x4xf32> {
    %w = graph.constant dense<[[[1.0, 1.0], [2.0, 3.0], [4.0, 5.0]]]> : tensor<1x3x2xf32>
    %c = graph.concat %x, %y {axis = 1 : i64, graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x4xf32>, tensor<1x2x4xf32>) -> tensor<1x3x4xf32>
    %z = graph.conv %c, %w {strides = array<i64: 1>, pads = array<i64: 1, 0>, dilations = array<i64: 1>,
        group = 1 : i64, graph.ranges = [#graph.range<-1024.0, 1016.0>]}
        : (tensor<1x3x4xf32>, tensor<1x3x2xf32>) -> tensor<1x1x4xf32>
    func.return %z : tensor<1x1x4xf32>
  }

// CHECK-LABEL: @apart
// CHECK:         [[X:%[a-z0-9_]+]] = graph.quantize %x
// CHECK-NEXT:    graph.constant dense<32> : tensor<1x1x2xi8>
// CHECK-NEXT:    graph.conv [[X]]
// CHECK-NEXT:    [[Y:%[a-z0-9_]+]] = graph.quantize %y
// CHECK-NEXT:    graph.constant dense<{{\[\[\[}}32, 48], [64, 80]]]> : tensor<1x2x2xi8>
// CHECK-NEXT:    graph.conv [[Y]]
// CHECK-NEXT:    graph.add
// CHECK:         graph.requantize
// CHECK-NOT:     graph.requantize

  // Slices of space that are joined on channels are read where they are cut.
  func.func @focus(%x: tensor<1x1x4xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2x2xf32> {
    %a = graph.slice %x {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 2>}
        : (tensor<1x1x4xf32>) -> tensor<1x1x2xf32>
    %b = graph.slice %x {starts = array<i64: 0, 0, 1>, steps = array<i64: 1, 1, 2>}
        : (tensor<1x1x4xf32>) -> tensor<1x1x2xf32>
    %c = graph.concat %a, %b {axis = 1 : i64} : (tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x2x2xf32>
    func.return %c : tensor<1x2x2xf32>
  }

// CHECK-LABEL: @focus
// CHECK:         [[X:%[a-z0-9_]+]] = graph.quantize
// CHECK:         graph.conv [[X]], {{.*}}strides = array<i64: 2>, pads = array<i64: 0, -1>
// CHECK:         graph.conv [[X]], {{.*}}strides = array<i64: 2>, pads = array<i64: -1, 0>
// CHECK-NEXT:    graph.add
// CHECK:         graph.requantize
// CHECK-NOT:     graph.requantize

  // Space: windows that start inside their operand, or outside it.
  func.func @cut_and_pad(%x: tensor<1x1x4x4xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x1x3x4xf32> {
    %s = graph.slice %x {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 2, 1>,
        graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x3xf32>
    %p = graph.pad %s {pads = array<i64: 0, 0, 0, 1, 0, 0, 1, 0>, value = 0.0 : f64,
        graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x2x3xf32>) -> tensor<1x1x3x4xf32>
    func.return %p : tensor<1x1x3x4xf32>
  }

// CHECK-LABEL: @cut_and_pad
// CHECK:         graph.conv {{.*}}strides = array<i64: 2, 1>, pads = array<i64: -1, 0, 0, -1>
// CHECK:         graph.conv {{.*}}strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 1, 0>

  // A pad reads the integer that stands for its number, which the scale of its operand must reach.
  func.func @pad(%x: tensor<1x1x4xf32> {graph.range = #graph.range<-128.0, 50.0>})
      -> tensor<1x1x7xf32> {
    %p = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 2>, value = 127.0 : f64}
        : (tensor<1x1x4xf32>) -> tensor<1x1x7xf32>
    func.return %p : tensor<1x1x7xf32>
  }

// CHECK-LABEL: @pad(
// CHECK:         graph.quantize {{.*}}scale = 1.0
// CHECK:         graph.conv {{.*}}pads = array<i64: 1, 2>{{.*}}pad_value = 127 : i64

  // Constants a channel are weights on the diagonal and biases; a sign is a weight.
  func.func @affine(%x: tensor<1x2x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2x2xf32> {
    %k = graph.constant dense<[[0.5], [-1.0]]> : tensor<2x1xf32>
    %b = graph.constant dense<3.0> : tensor<f32>
    %m = graph.mul %x, %k : (tensor<1x2x2xf32>, tensor<2x1xf32>) -> tensor<1x2x2xf32>
    %y = graph.sub %b, %m {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<f32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
    func.return %y : tensor<1x2x2xf32>
  }

// CHECK-LABEL: @affine
// CHECK:         graph.constant dense<{{\[\[\[}}-128]], {{\[\[}}64]]]> : tensor<2x1x1xi8>
// CHECK-NEXT:    graph.conv {{.*}}group = 2 : i64
// CHECK-NEXT:    graph.constant dense<[896, 224]> : tensor<2xi32>
// CHECK-NEXT:    graph.constant dense<[8, 6]> : tensor<2xi32>
// CHECK-NEXT:    graph.requantize

  // A negative slope: the larger of x and slope * x.
  func.func @slope(%x: tensor<1x1x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x1x2xf32> {
    %y = graph.leaky_relu %x {alpha = 0.5 : f64, graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
    func.return %y : tensor<1x1x2xf32>
  }

// CHECK-LABEL: @slope
// CHECK:         graph.constant dense<64>
// CHECK-NEXT:    [[A:%[0-9]+]] = graph.conv
// CHECK-NEXT:    graph.constant dense<32>
// CHECK-NEXT:    [[B:%[0-9]+]] = graph.conv
// CHECK-NEXT:    graph.max [[A]], [[B]]

  func.func @repeated(%x: tensor<1x1x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x1x6xf32> {
    %y = graph.upsample %x {factors = array<i64: 1, 1, 3>,
        graph.ranges = [#graph.range<-128.0, 127.0>]} : (tensor<1x1x2xf32>) -> tensor<1x1x6xf32>
    func.return %y : tensor<1x1x6xf32>
  }

// CHECK-LABEL: @repeated
// CHECK:         graph.upsample {{.*}} : (tensor<1x1x2xi8>) -> tensor<1x1x6xi8>

  func.func @turned(%x: tensor<1x1x2x3xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x1x3x2xf32> {
    %y = graph.transpose %x {permutation = array<i64: 0, 1, 3, 2>,
        graph.ranges = [#graph.range<-128.0, 127.0>]} : (tensor<1x1x2x3xf32>) -> tensor<1x1x3x2xf32>
    func.return %y : tensor<1x1x3x2xf32>
  }

// CHECK-LABEL: @turned
// CHECK:         graph.transpose {{.*}} : (tensor<1x1x2x3xi8>) -> tensor<1x1x3x2xi8>

  func.func @declined(%x: tensor<2x2x2xf32> {graph.range = #graph.range<-128.0, 127.0>},
      %z: tensor<2x1x2xf32> {graph.range = #graph.range<-128.0, 127.0>}) {
    // CHECK-LABEL: @declined
    // CHECK: graph.concat {{.*}}host_reason = "it changes the batch
    %a = graph.concat %x, %x {axis = 0 : i64, graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<4x2x2xf32>
    // CHECK: graph.constant
    %k = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
    // CHECK: graph.mul {{.*}}host_reason = "it multiplies tensors of shapes [2, 2, 2] and [2]: one must be a constant with one number a channel"
    %b = graph.mul %x, %k {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<2x2x2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
    // CHECK: graph.sub {{.*}}host_reason = "broadcasting subtraction
    %c = graph.sub %x, %z {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<2x2x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x2xf32>
    %s = graph.constant dense<[[0.5], [2.0]]> : tensor<2x1xf32>
    // CHECK: graph.prelu {{.*}}host_reason = "some of its slopes are below 1 and some above
    %d = graph.prelu %x, %s {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<2x2x2xf32>, tensor<2x1xf32>) -> tensor<2x2x2xf32>
    // CHECK: graph.pad {{.*}}host_reason = "it pads space with inf, out of the range of its operand"
    %e = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 0>, value = 0x7FF0000000000000 : f64,
        graph.ranges = [#graph.range<-128.0, 127.0>]} : (tensor<2x2x2xf32>) -> tensor<2x2x3xf32>
    // CHECK: graph.upsample {{.*}}host_reason = "it repeats the batch or channels
    %f = graph.upsample %x {factors = array<i64: 1, 2, 1>,
        graph.ranges = [#graph.range<-128.0, 127.0>]} : (tensor<2x2x2xf32>) -> tensor<2x4x2xf32>
    // CHECK: graph.transpose {{.*}}host_reason = "transpose [0, 2, 1] moves channels or the batch"
    %g = graph.transpose %x {permutation = array<i64: 0, 2, 1>,
        graph.ranges = [#graph.range<-128.0, 127.0>]} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
    func.return
  }
}
