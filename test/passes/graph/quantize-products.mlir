// RUN: vta-opt %s -p quantize | filecheck %s
// RUN: vta-opt %s --target pynq -p quantize | filecheck %s --check-prefix SHIFTS

// Two tensors are multiplied in the accumulators where the ALU does that; one has the change of
// scale as a weight, 64 at a shift by 6 for 1. A factor that broadcasts over space is repeated.
builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func @product(%x: tensor<1x1x2x2xf32> {graph.range = #graph.range<-128.0, 127.0>},
      %y: tensor<1x1x1x1xf32> {graph.range = #graph.range<0.0, 255.0>}) -> tensor<1x1x2x2xf32> {
    %z = graph.mul %y, %x {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x1x1xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
    func.return %z : tensor<1x1x2x2xf32>
  }

// CHECK-LABEL: @product
// CHECK:         graph.quantize %y {scale = 1.000000e+00 : f64, zero_point = -128 : i64}
// CHECK-NEXT:    graph.upsample {{.*}}factors = array<i64: 1, 1, 2, 2>
// CHECK:         graph.add_bias
// CHECK:         graph.mul {{.*}} -> tensor<1x1x2x2xi32>
// CHECK:         graph.requantize

// SHIFTS-LABEL: @product
// SHIFTS:        graph.mul {{.*}}host_reason = "it multiplies two tensors, and the ALU of the target does not multiply (sim's does)"

  // x * clip(x / 6 + 1 / 2, 0, 1): the second factor in steps of 1 / 762, never rounded to int8.
  func.func @swish(%x: tensor<1x1x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x1x2xf32> {
    %z = graph.hard_swish %x {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
    func.return %z : tensor<1x1x2xf32>
  }

// CHECK-LABEL: @swish
// CHECK:         graph.conv
// CHECK:         graph.constant dense<127> : tensor<1x1x1xi8>
// CHECK-NEXT:    graph.conv
// CHECK-NEXT:    graph.constant dense<381> : tensor<1xi32>
// CHECK-NEXT:    graph.add_bias
// CHECK-NEXT:    graph.clip {{.*}}min = 0.000000e+00 : f64, max = 7.620000e+02 : f64
// CHECK-NEXT:    graph.mul

// Without a multiplier clamped lines are added up, and a note says how near they come.
// SHIFTS-LABEL: @swish
// SHIFTS:        graph.clip
// SHIFTS:        graph.requantize {{.*}}graph.note = "{{[0-9]+}} line{{s?}}, at most {{[0-9.]+}} steps of its result off"
}
