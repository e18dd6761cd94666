// RUN: vta-opt %s -p graph-to-te --split-input-file | filecheck %s

// A convolution with requantisation, called from the host's function: constants are packed, the
// vector of biases stays a vector, the shift that all channels share is an immediate.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func @main(%x: tensor<1x3x8x8xi8, #graph.packed<1, 4>>) -> tensor<1x5x4x4xi8, #graph.packed<1, 4>> {
    %y = func.call @vta_0(%x) : (tensor<1x3x8x8xi8, #graph.packed<1, 4>>) -> tensor<1x5x4x4xi8, #graph.packed<1, 4>>
    func.return %y : tensor<1x5x4x4xi8, #graph.packed<1, 4>>
  }
  func.func private @vta_0(%x: tensor<1x3x8x8xi8, #graph.packed<1, 4>>) -> tensor<1x5x4x4xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %w = graph.constant dense<1> : tensor<5x3x3x3xi8>
    %b = graph.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
    %s = graph.constant dense<7> : tensor<5xi32>
    %y = graph.composite "vta.conv"(%x, %w, %b, %s) : (tensor<1x3x8x8xi8, #graph.packed<1, 4>>, tensor<5x3x3x3xi8>, tensor<5xi32>, tensor<5xi32>) -> tensor<1x5x4x4xi8, #graph.packed<1, 4>> {
    ^bb0(%x1: tensor<1x3x8x8xi8, #graph.packed<1, 4>>, %w1: tensor<5x3x3x3xi8>, %b1: tensor<5xi32>, %s1: tensor<5xi32>):
      %acc = graph.conv %x1, %w1 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x8x8xi8, #graph.packed<1, 4>>, tensor<5x3x3x3xi8>) -> tensor<1x5x4x4xi32, #graph.packed<1, 4>>
      %q = graph.requantize %acc bias %b1 shift %s1 {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x5x4x4xi32, #graph.packed<1, 4>>, tensor<5xi32>, tensor<5xi32>) -> tensor<1x5x4x4xi8, #graph.packed<1, 4>>
      graph.yield %q : tensor<1x5x4x4xi8, #graph.packed<1, 4>>
    }
    func.return %y : tensor<1x5x4x4xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       func.func @main
// CHECK-NEXT:    %[[X:.*]] = builtin.unrealized_conversion_cast %x : tensor<1x3x8x8xi8, #graph.packed<1, 4>> to tensor<1x1x8x8x1x4xi8>
// CHECK-NEXT:    %[[Y:.*]] = func.call @vta_0(%[[X]])
// CHECK-NEXT:    builtin.unrealized_conversion_cast %[[Y]] : tensor<1x2x4x4x1x4xi8> to tensor<1x5x4x4xi8, #graph.packed<1, 4>>
// CHECK:       func.func private @vta_0(%x: tensor<1x1x8x8x1x4xi8>) -> tensor<1x2x4x4x1x4xi8>
// CHECK-NEXT:    %[[W:.*]] = te.constant #vtac.resource<{{.*}}> : tensor<2x1x3x3x4x4xi8>
// CHECK-NEXT:    %[[B:.*]] = te.constant dense<{{\[\[\[}}1, 2, 3, 4]], {{\[\[}}5, 0, 0, 0]]]> : tensor<2x1x4xi32>
// CHECK-NEXT:    te.call @conv0(%x, %[[W]], %[[B]])
// CHECK:       te.kernel @conv0(%x: tensor<1x1x8x8x1x4xi8>, %weight: tensor<2x1x3x3x4x4xi8>, %bias: tensor<2x1x4xi32>)
// CHECK-NEXT:    %conv = te.compute "conv" (n = 1, c = 2, h = 4, w = 4, b = 1, o = 4) reduce (ci = 1, kh = 3, kw = 3, k = 4)
// CHECK-NEXT:        ins (%x[n, ci, 2 * h + kh - 1, 2 * w + kw - 1, b, k] outside 0 : tensor<1x1x8x8x1x4xi8>,
// CHECK-NEXT:             %weight[c, ci, kh, kw, o, k] : tensor<2x1x3x3x4x4xi8>) identity 0 {
// CHECK:         %requantize = te.compute "requantize" (n = 1, c = 2, h = 4, w = 4, b = 1, o = 4)
// CHECK-NEXT:        ins (%conv[n, c, h, w, b, o] : tensor<1x2x4x4x1x4xi32>,
// CHECK-NEXT:             %bias[c, b, o] : tensor<2x1x4xi32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: i32, %[[V:.*]]: i32):
// CHECK-NEXT:      arith.addi %[[A]], %[[V]]
// CHECK-NEXT:      arith.constant 7
// CHECK-NEXT:      arith.shrsi
// CHECK-NEXT:      arith.constant 0
// CHECK-NEXT:      arith.maxsi
// CHECK-NEXT:      arith.constant 127
// CHECK-NEXT:      arith.minsi
// CHECK-NEXT:      arith.trunci

// -----

// Equal layers share a kernel; a reshape between [N, C, 1] and [N, C] moves nothing; left shifts up
// to 6 are a product with powers of two, and no bias and no shift are no operations.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func private @vta_0(%x: tensor<1x2x1xi8, #graph.packed<1, 4>>) -> tensor<1x2xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %k = graph.constant dense<[0, 6]> : tensor<2xi32>
    %l = graph.constant dense<[3, 2]> : tensor<2xi32>
    %0 = graph.constant dense<0> : tensor<2xi32>
    %a = graph.shift_left %x, %k : (tensor<1x2x1xi8, #graph.packed<1, 4>>, tensor<2xi32>) -> tensor<1x2x1xi32, #graph.packed<1, 4>>
    %p = graph.requantize %a bias %0 shift %0 {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2x1xi32, #graph.packed<1, 4>>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x1xi8, #graph.packed<1, 4>>
    %r = graph.reshape %p : (tensor<1x2x1xi8, #graph.packed<1, 4>>) -> tensor<1x2xi8, #graph.packed<1, 4>>
    %b = graph.shift_left %r, %l : (tensor<1x2xi8, #graph.packed<1, 4>>, tensor<2xi32>) -> tensor<1x2xi32, #graph.packed<1, 4>>
    %q = graph.requantize %b bias %0 shift %0 {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2xi32, #graph.packed<1, 4>>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2xi8, #graph.packed<1, 4>>
    func.return %q : tensor<1x2xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       func.func private @vta_0(%x: tensor<1x1x1x1x4xi8>) -> tensor<1x1x1x1x4xi8>
// CHECK-NEXT:    %[[K:.*]] = te.constant dense<{{\[\[\[}}1, 0, 0, 0], [0, 64, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]]> : tensor<1x4x4xi8>
// CHECK-NEXT:    %[[P:.*]] = te.call @shift_left0(%x, %[[K]])
// CHECK-NEXT:    %[[L:.*]] = te.constant dense<{{\[\[\[}}8, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]]>
// CHECK-NEXT:    %[[Q:.*]] = te.call @shift_left0(%[[P]], %[[L]])
// CHECK-NEXT:    func.return %[[Q]]
// CHECK:         te.compute "scale" (n = 1, c = 1, w = 1, b = 1, o = 4) reduce (k = 4)
// CHECK-NEXT:        ins (%x[n, c, w, b, k] : tensor<1x1x1x1x4xi8>,
// CHECK-NEXT:             %scale[c, o, k] : tensor<1x4x4xi8>) identity 0 {
// CHECK:         te.compute "requantize"
// CHECK-NOT:     arith.addi
// CHECK:         arith.maxsi
// CHECK-NOT:   te.kernel

// -----

// What another codegen takes is left alone.
builtin.module {
  func.func private @json_0(%x: tensor<1x2xi8>) -> tensor<1x2xi8> attributes {codegen = "json"} {
    func.return %x : tensor<1x2xi8>
  }
}
// CHECK:       func.func private @json_0(%x: tensor<1x2xi8>)
// CHECK-NEXT:    func.return %x

// -----

// Repeated elements: an axis for copies behind each that is repeated, and a view that joins them.
// Folding space is a view as well.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func private @vta_0(%x: tensor<1x3x2x3xi8, #graph.packed<1, 4>>) -> tensor<1x3x12xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %y = graph.upsample %x {factors = array<i64: 1, 1, 1, 2>} : (tensor<1x3x2x3xi8, #graph.packed<1, 4>>) -> tensor<1x3x2x6xi8, #graph.packed<1, 4>>
    %z = graph.reshape %y : (tensor<1x3x2x6xi8, #graph.packed<1, 4>>) -> tensor<1x3x12xi8, #graph.packed<1, 4>>
    func.return %z : tensor<1x3x12xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       %[[Y:.*]] = te.call @upsample0(%x) : (tensor<1x1x2x3x1x4xi8>) -> tensor<1x1x2x3x2x1x4xi8>
// CHECK-NEXT:  %[[V:.*]] = te.view %[[Y]] : tensor<1x1x2x3x2x1x4xi8> to tensor<1x1x2x6x1x4xi8>
// CHECK-NEXT:  te.view %[[V]] : tensor<1x1x2x6x1x4xi8> to tensor<1x1x12x1x1x4xi8>
// CHECK:       te.compute "upsample" (n = 1, c = 1, h = 2, w = 3, w_copy = 2, b = 1, o = 4)
// CHECK-NEXT:      ins (%x[n, c, h, w, b, o] : tensor<1x1x2x3x1x4xi8>)

// -----

// Space in another order.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func private @vta_0(%x: tensor<1x3x2x5xi8, #graph.packed<1, 4>>) -> tensor<1x3x5x2xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %y = graph.transpose %x {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x3x2x5xi8, #graph.packed<1, 4>>) -> tensor<1x3x5x2xi8, #graph.packed<1, 4>>
    func.return %y : tensor<1x3x5x2xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       te.compute "transpose" (n = 1, c = 1, h = 5, w = 2, b = 1, o = 4)
// CHECK-NEXT:      ins (%x[n, c, w, h, b, o] : tensor<1x1x2x5x1x4xi8>)

// -----

// Matrices one below the other are views with an axis for the batch, of which both operands have
// their own entry.
builtin.module attributes {vtac.target = #target.vta<"sim", log_batch = 1>} {
  func.func private @vta_0(%a: tensor<8x20xi8, #graph.packed<2, 16>>, %b: tensor<32x20xi8, #graph.packed<16, 16, weights>>) -> tensor<8x3xi8, #graph.packed<2, 16>> attributes {codegen = "vta"} {
    %s = graph.constant dense<7> : tensor<3xi32>
    %acc = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<8x20xi8, #graph.packed<2, 16>>, tensor<32x20xi8, #graph.packed<16, 16, weights>>) -> tensor<8x3xi32, #graph.packed<2, 16>>
    %y = graph.requantize %acc bias %s shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<8x3xi32, #graph.packed<2, 16>>, tensor<3xi32>, tensor<3xi32>) -> tensor<8x3xi8, #graph.packed<2, 16>>
    func.return %y : tensor<8x3xi8, #graph.packed<2, 16>>
  }
}
// CHECK:       func.func private @vta_0(%a: tensor<4x2x2x16xi8>, %b: tensor<2x2x16x16xi8>) -> tensor<4x1x2x16xi8>
// CHECK-NEXT:    %[[A:.*]] = te.view %a : tensor<4x2x2x16xi8> to tensor<2x2x2x2x16xi8>
// CHECK-NEXT:    %[[B:.*]] = te.view %b : tensor<2x2x16x16xi8> to tensor<2x1x2x16x16xi8>
// CHECK-NEXT:    %[[Y:.*]] = te.call @batch_matmul0(%[[A]], %[[B]])
// CHECK-NEXT:    te.view %[[Y]] : tensor<2x2x1x2x16xi8> to tensor<4x1x2x16xi8>
// CHECK:         te.compute "gemm" (g = 2, n = 2, c = 1, b = 2, o = 16) reduce (ci = 2, k = 16)
// CHECK-NEXT:        ins (%a[g, n, ci, b, k] : tensor<2x2x2x2x16xi8>,
// CHECK-NEXT:             %b[g, c, ci, o, k] : tensor<2x1x2x16x16xi8>) identity 0 {

// -----

// Requantisation by multiplication: vectors where channels differ, an immediate where all agree and
// it fits the field. What the inner clamp lets through does not fall below -128: no maximum there.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func private @vta_0(%x: tensor<1x3xi8, #graph.packed<1, 4>>) -> tensor<1x3xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %w = graph.constant dense<1> : tensor<3x3xi8>
    %b = graph.constant dense<[5, -6, 7]> : tensor<3xi32>
    %least = graph.constant dense<[-700, -800, -800]> : tensor<3xi32>
    %most = graph.constant dense<[900, 900, 900]> : tensor<3xi32>
    %m = graph.constant dense<[1000000, 1100000, 1200000]> : tensor<3xi32>
    %o = graph.constant dense<4194304> : tensor<3xi32>
    %acc = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x3xi8, #graph.packed<1, 4>>, tensor<3x3xi8>) -> tensor<1x3xi32, #graph.packed<1, 4>>
    %y = graph.rescale %acc bias %b within %least, %most times %m plus %o {shift = 23 : i64, lo = -128 : i64, hi = 100 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x3xi32, #graph.packed<1, 4>>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<1x3xi8, #graph.packed<1, 4>>
    func.return %y : tensor<1x3xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       te.compute "rescale" (n = 1, c = 1, b = 1, o = 4)
// CHECK-NEXT:      ins (%gemm[n, c, b, o] : tensor<1x1x1x4xi32>,
// CHECK-NEXT:           %bias[c, b, o] : tensor<1x1x4xi32>,
// CHECK-NEXT:           %least[c, b, o] : tensor<1x1x4xi32>,
// CHECK-NEXT:           %multiplier[c, b, o] : tensor<1x1x4xi32>,
// CHECK-NEXT:           %offset[c, b, o] : tensor<1x1x4xi32>) {
// CHECK-NEXT:  ^bb0(%[[ACC:.*]]: i32, %[[BIAS:.*]]: i32, %[[LEAST:.*]]: i32, %[[MULTIPLIER:.*]]: i32, %[[OFFSET:.*]]: i32):
// CHECK-NEXT:    %[[SUM:.*]] = arith.addi %[[ACC]], %[[BIAS]] : i32
// CHECK-NEXT:    %[[ABOVE:.*]] = arith.maxsi %[[SUM]], %[[LEAST]] : i32
// CHECK-NEXT:    %[[MOST:.*]] = arith.constant 900 : i32
// CHECK-NEXT:    %[[WITHIN:.*]] = arith.minsi %[[ABOVE]], %[[MOST]] : i32
// CHECK-NEXT:    %[[PRODUCT:.*]] = arith.muli %[[WITHIN]], %[[MULTIPLIER]] : i32
// CHECK-NEXT:    arith.addi %[[PRODUCT]], %[[OFFSET]]
// CHECK:         arith.shrsi
// CHECK-NEXT:    arith.constant 100 : i32
// CHECK-NEXT:    arith.minsi
// CHECK-NEXT:    arith.trunci

// -----

// Ten channels from the fourth on, of rows 1 and 2: blocks 1 to 3. Behind eight channels of another
// tensor they begin with a block of their own, so that both lie side by side. Nothing is called.
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 2, log_inp_buff_size = 12, log_wgt_buff_size = 14, log_acc_buff_size = 14>} {
  func.func private @vta_0(%x: tensor<1x20x4x5xi8, #graph.packed<1, 4>>, %z: tensor<1x8x2x5xi8, #graph.packed<1, 4>>) -> tensor<1x18x2x5xi8, #graph.packed<1, 4>> attributes {codegen = "vta"} {
    %a = graph.slice %x {starts = array<i64: 0, 4, 1, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x20x4x5xi8, #graph.packed<1, 4>>) -> tensor<1x10x2x5xi8, #graph.packed<1, 4>>
    %y = graph.concat %z, %a {axis = 1 : i64} : (tensor<1x8x2x5xi8, #graph.packed<1, 4>>, tensor<1x10x2x5xi8, #graph.packed<1, 4>>) -> tensor<1x18x2x5xi8, #graph.packed<1, 4>>
    func.return %y : tensor<1x18x2x5xi8, #graph.packed<1, 4>>
  }
}
// CHECK:       func.func private @vta_0(%x: tensor<1x5x4x5x1x4xi8>, %z: tensor<1x2x2x5x1x4xi8>) -> tensor<1x5x2x5x1x4xi8>
// CHECK-NEXT:    %[[A:.*]] = te.window %x [0 : 1, 1 : 3, 1 : 2, 0 : 5, 0 : 1, 0 : 4] : tensor<1x5x4x5x1x4xi8> to tensor<1x3x2x5x1x4xi8>
// CHECK-NEXT:    %[[Y:.*]] = te.assemble (%z at [0, 0, 0, 0, 0, 0], %[[A]] at [0, 2, 0, 0, 0, 0]) : tensor<1x5x2x5x1x4xi8>
// CHECK-NEXT:    func.return %[[Y]]
