// RUN: vta-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// CHECK: [0:2, 0:20] is no rectangle of tensor<1x20xi8>
func.func @refused(%x: tensor<1x20xi8>) {
  %y = graph.window %x [0:2, :] : tensor<1x20xi8>
  func.return
}

// -----

// CHECK: [0:1, 4:20] cuts elements of the layout
func.func @refused(%x: tensor<1x20xi8, #graph.packed<1, 16>>) {
  %y = graph.window %x [:, 4:20] : tensor<1x20xi8, #graph.packed<1, 16>>
  func.return
}

// -----

// CHECK: has not 1 dimensions
func.func @refused(%x: tensor<1x20xi8>) {
  %y = graph.window %x [:] : tensor<1x20xi8>
  func.return
}

// -----

// CHECK: pieces [0:1, 0:2] and [0:1, 1:3] overlap
func.func @refused(%x: tensor<1x2xi8>) {
  %y = graph.assemble (%x at [0, 0], %x at [0, 1]) : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>
  func.return
}

// -----

// CHECK: 1 elements of the tensor are in no piece
func.func @refused(%x: tensor<1x2xi8>) {
  %y = graph.assemble (%x at [0, 0], %x at [0, 2]) : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x5xi8>
  func.return
}

// -----

// CHECK: the body must yield values of the types of the outputs
func.func @refused(%x: tensor<1x2xi8>) {
  %y = graph.group @g (%a = %x : tensor<1x2xi8>) -> tensor<1x3xi8> {
    graph.yield %a : tensor<1x2xi8>
  }
  func.return
}

// -----

// CHECK: there is no part 2 of so few parts
func.func @refused(%x: tensor<1x2xi8>) {
  %y = graph.instance @g part 2 of 2 (%a = %x : tensor<1x2xi8>) -> tensor<1x2xi8> {
    graph.yield %a : tensor<1x2xi8>
  }
  func.return
}

// -----

// CHECK: instances split n or h, not c
func.func @refused() attributes {a = #graph.split<c, factor 2, ops 1>} {
  func.return
}

// -----

// CHECK: factors of a binding are 1 or more, cores 0 or more
func.func @refused() attributes {a = #graph.binding<n = 0, h = 1, c = 1>} {
  func.return
}

// -----

// CHECK: places in gb have an offset, places in ddr have none
func.func @refused() attributes {a = #graph.place<ddr, 64>} {
  func.return
}

// -----

// CHECK: tensors lie in gb or ddr, not in lb
func.func @refused() attributes {a = #graph.place<lb, 64>} {
  func.return
}
